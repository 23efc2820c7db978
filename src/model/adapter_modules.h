#pragma once
// The linear layers of a model that may have an adapter, and which of them settings ask for.

#include <string>
#include <string_view>
#include <vector>

#include "model/adapter_config.h"
#include "model/model_config.h"

namespace viaduct {

/// A logical matrix [out, in] of a block.
struct AdaptableModule {
  std::string name;        // Hugging Face's, without ".weight"
  std::string_view layer;  // Megatron's name of the layer that it is in: "linear_qkv", …
  int64_t out = 0, in = 0;
  /// Only a pattern that ends in its last part asks for it: routers, and gate and up of an expert
  /// as one (model/expert_adapters.h).
  bool named_only = false;
  double use = 1;  // the part of the tokens that is multiplied with it
  /// Whether DoRA is built for it: not for experts, nor for weights that every tensor rank holds
  /// whole (routers, down-projections of latent attention, projections of multi-token prediction).
  bool magnitudes = true;
  /// Of a layer of multi-token prediction, its number among the blocks, else −1. Without an adapter
  /// it is frozen, and its loss trains the adapters below; only kFurtherLayersPattern and names
  /// with this number ask for it, for few programs have these layers.
  int64_t further = -1;
  int64_t block = 0;         // of a dense layer: the block that it is in, or is like
  bool of_images = false;    // of the vision tower or the projector (model/image_adapters.h)
  bool of_encoder = false;   // it multiplies the tokens of an encoder's rows, not the decoder's
  std::string in_peft = {};  // its name in PEFT's files, where that is another

  const std::string& peft_name() const { return in_peft.empty() ? name : in_peft; }
};

/// In peft.target_modules: every matrix of the layers of multi-token prediction.
inline constexpr const char* kFurtherLayersPattern = "mtp";
/// AdaptableModule::layer of what such a layer has before its block.
inline constexpr std::string_view kFurtherProjection = "mtp_projection";

/// All of them, block by block, an encoder's in front, with those of multi-token prediction, which
/// are numbered after the model's, at the end, and those of images behind them.
std::vector<AdaptableModule> adaptable_modules(const ModelConfig& model);

/// "q_proj" of "model.layers.0.self_attn.q_proj".
std::string last_part(const std::string& name);
/// The last parts of the names, each once, in order.
std::vector<std::string> last_parts(const std::vector<std::string>& names);

/// Whether a pattern is for a module: its name or last parts, with wildcards.
bool names_module(const std::string& pattern, const std::string& module);

/// What `config` asks for. ConfigError for a pattern that matches nothing, with the nearest name,
/// for tables and heads by name, if nothing is left, and for a rank or alpha that is no number or
/// too small.
AdapterSettings choose_adapters(const PeftConfig& config, const ModelConfig& model);

/// ConfigError, beginning with `what`, for adapters with magnitudes (DoRA) of modules that they are
/// not built for.
void check_magnitudes(const AdapterSettings& settings, const ModelConfig& model,
                      const std::string& what);

/// The number of the first pattern, in their order, for which `(.*\.)?(PATTERN)$` matches the
/// module's name, as in PEFT; null if none does. ConfigError, naming `where`, for a broken pattern.
const double* pattern_number(const std::vector<std::pair<std::string, double>>& patterns,
                             const std::string& module, const std::string& where);

}  // namespace viaduct
