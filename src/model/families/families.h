#pragma once
// The families, one function (and one file) each, and what the descendants of Llama share
// (llama_like.cpp).

#include "config/problems.h"
#include "model/family.h"

namespace viaduct::families {

/// Checks the properties that a family fixes; each problem names the field.
class FamilyChoices {
 public:
  explicit FamilyChoices(std::string family) : family_(std::move(family)) {}
  template <class Found>
  void expect(bool holds, std::string_view field, std::string_view has, const Found& found) {
    if (!holds) problems_.add("model.{}: family {} has {}, found {}", field, family_, has, found);
  }
  void throw_if_any() const { problems_.throw_if_any(); }

 private:
  std::string family_;
  Problems problems_;
};

// A family is a line here and a function in a file of its name, in alphabetical order.
// clang-format off
#define VIADUCT_MODEL_FAMILIES(family) \
  family(gemma)                        \
  family(gemma2)                       \
  family(gpt2)                         \
  family(llama)                        \
  family(mistral)                      \
  family(qwen2)                        \
  family(qwen3)
// clang-format on
#define VIADUCT_DECLARE_FAMILY(name) ModelFamily name();
VIADUCT_MODEL_FAMILIES(VIADUCT_DECLARE_FAMILY)
#undef VIADUCT_DECLARE_FAMILY

/// Activation functions by Hugging Face's names; ConfigError naming the field.
ActivationKind activation_from_hf(HfConfig& config, std::string_view field,
                                  std::string_view fallback);
std::string activation_to_hf(ActivationKind kind);

/// Sizes, RMS norm, gated MLP and rotary positions with their scaling, as in all descendants of
/// Llama. `default_head_dim` (0: hidden size / heads) and `default_padding` apply if the
/// configuration omits the field (a null padding token means none).
ModelConfig read_llama_like(HfConfig& config, int64_t default_head_dim = 0,
                            int64_t default_padding = -1);
/// The same fields as a JSON object.
nlohmann::ordered_json write_llama_like(const ModelConfig& config);
/// Fills the fields of a rope_scaling (or rope_parameters) object; ConfigError for kinds not
/// supported.
void read_rope_scaling(HfConfig& scaling, int64_t max_positions, RotarySpec& rotary);
/// The same as JSON text ("null" without scaling).
std::string write_rope_scaling(const RotarySpec& rotary);
/// What `auto` means for the Gemma families.
void resolve_gemma(ModelFields& fields);
/// ConfigError if the model attends forwards too (`use_bidirectional_attention` of the Gemma
/// families).
void refuse_bidirectional(HfConfig& config);
/// Names of the tensors of a descendant of Llama.
TensorNames llama_names();

/// Windows by layer in the Qwen families: the layers from max_window_layers on, if enabled.
std::vector<int64_t> read_qwen_windows(HfConfig& config, int64_t layers);
/// Adds the window fields of the Qwen families.
void write_qwen_windows(const ModelConfig& config, nlohmann::ordered_json& json);

/// Windows by layer from `layer_types` where present ("sliding_attention" / "full_attention"), else
/// by `slides(layer)`.
std::vector<int64_t> windows_by_layer(HfConfig& config, int64_t layers, int64_t window,
                                      bool (*slides)(int64_t layer, int64_t from), int64_t from);

}  // namespace viaduct::families
