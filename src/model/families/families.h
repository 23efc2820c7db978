#pragma once
// The families, one function (and one file) each, and what they share: the descendants of Llama
// (llama_like.cpp), rotary positions (rope.cpp), windows (layer_types.cpp), experts (experts.cpp,
// deepseek_experts.cpp).

#include <optional>

#include "model/families/choices.h"
#include "model/family.h"

namespace viaduct {
struct MoeFields;
}

namespace viaduct::families {

// A family is a line here and a function in a file of the same name, in alphabetical order.
// clang-format off
#define VIADUCT_MODEL_FAMILIES(family) \
  family(apertus)                      \
  family(arcee)                        \
  family(bloom)                        \
  family(cohere)                       \
  family(cohere2)                      \
  family(cwm)                          \
  family(deepseek_v2)                  \
  family(deepseek_v3)                  \
  family(dots1)                        \
  family(ernie4_5)                     \
  family(ernie4_5_moe)                 \
  family(exaone4)                      \
  family(falcon)                       \
  family(gemma)                        \
  family(gemma2)                       \
  family(gemma3_text)                  \
  family(gemma4_text)                  \
  family(glm)                          \
  family(glm4)                         \
  family(glm4_moe)                     \
  family(glm4_moe_lite)                \
  family(gpt2)                         \
  family(gpt_bigcode)                  \
  family(gpt_neo)                      \
  family(gpt_neox)                     \
  family(gpt_oss)                      \
  family(gptj)                         \
  family(granite)                      \
  family(granitemoe)                   \
  family(granitemoeshared)             \
  family(helium)                       \
  family(hunyuan_v1_dense)             \
  family(hunyuan_v1_moe)               \
  family(kimi_k2)                      \
  family(llama)                        \
  family(llama4_text)                  \
  family(minimax_m2)                   \
  family(ministral)                    \
  family(ministral3)                   \
  family(mistral)                      \
  family(mixtral)                      \
  family(mpt)                          \
  family(nemotron)                     \
  family(olmo)                         \
  family(olmo2)                        \
  family(olmo3)                        \
  family(olmoe)                        \
  family(opt)                          \
  family(phi)                          \
  family(phi3)                         \
  family(phimoe)                       \
  family(qwen2)                        \
  family(qwen2_moe)                    \
  family(qwen3)                        \
  family(qwen3_moe)                    \
  family(seed_oss)                     \
  family(smollm3)                      \
  family(solar_open)                   \
  family(stablelm)                     \
  family(starcoder2)                   \
  family(t5)                           \
  family(vaultgemma)
// clang-format on
#define VIADUCT_DECLARE_FAMILY(name) ModelFamily name();
VIADUCT_MODEL_FAMILIES(VIADUCT_DECLARE_FAMILY)
#undef VIADUCT_DECLARE_FAMILY

/// Activation functions by Hugging Face's names; ConfigError naming the field.
ActivationKind activation_from_hf(HfConfig& config, std::string_view field,
                                  std::string_view fallback);
std::string activation_to_hf(ActivationKind kind);

/// Defaults of a family for absent fields of rotary positions.
struct RotaryDefaults {
  double base = 10000;
  double part = 0;           // of a head that rotates; 0: the family has no partial_rotary_factor
  bool interleaved = false;  // pairs are neighbours
  /// The length before a stretch stands outside of `rope_scaling` (Phi 3).
  bool original_length = false;
  /// The base of layers with a window, of families whose `rope_parameters` has an object for each
  /// kind of layer (window_rotary_base is read from it only); 0: others.
  double window_base = 0;
  bool alpha = false;        // `dynamic` may have it (Hunyuan)
  bool temperature = false;  // llama_4_scaling_beta (Ministral 3)
  bool magnitudes = false;   // short_mscale and long_mscale of longrope (Phi 3.5 MoE)
};

/// Sizes, RMS norm, gated MLP and rotary positions with their scaling, as in all descendants of
/// Llama. `default_head_dim` (0: hidden size / heads) and `default_padding` apply if the
/// configuration omits the field (a null padding token means none); `default_feed_forward` in
/// families whose files may leave out `intermediate_size`.
ModelConfig read_llama_like(HfConfig& config, int64_t default_head_dim = 0,
                            int64_t default_padding = -1, const RotaryDefaults& rotary = {},
                            std::optional<int64_t> default_feed_forward = {});
/// Where a descendant differs from Llama.
struct LlamaForm {
  NormKind norm = NormKind::rms_norm;
  bool gated = true;
  bool interleaved = false;  // Hugging Face's code of the family rotates pairs of neighbours
  bool alpha = false;        // … reads alpha in rope_scaling
};
/// The same fields as a JSON object, without the epsilon of layer norms.
nlohmann::ordered_json write_llama_like(const ModelConfig& config, const LlamaForm& form = {});
/// Norms, feed-forward and positions of a family's blocks.
struct BlockForm {
  NormKind norm = NormKind::rms_norm;
  bool gated = true;
  PositionKind positions = PositionKind::rotary;
};
void expect_form(const ModelConfig& model, const BlockForm& form, FamilyChoices& choices);
/// Of a model whose hidden size and heads are read, from the fields `hidden` and `heads`: heads
/// that fill the hidden size, each with keys and values of its own, and their scale. ConfigError
/// where their number does not divide it.
void fill_with_heads(const HfConfig& config, std::string_view heads, std::string_view hidden,
                     ModelConfig& model);
/// For families whose heads fill the hidden size, whatever `head_dim` says: ConfigError if it says
/// otherwise.
void check_heads_fill(HfConfig& config, const ModelConfig& model);
void expect_heads_fill(const ModelConfig& model, FamilyChoices& choices);
/// For families whose every head has keys and values of its own.
void expect_own_keys(const ModelConfig& model, FamilyChoices& choices);
/// `pad_token_id`, `fallback` where the file does not mention it; -1: none. Negative numbers count
/// from the end of the vocabulary, as in torch.nn.Embedding.
int64_t read_padding_token(HfConfig& config, int64_t fallback, int64_t vocabulary);
/// `attention_bias` of all four projections and `mlp_bias`, which Llama's files leave out.
void read_llama_biases(HfConfig& config, ModelConfig& model);
void write_llama_biases(const ModelConfig& model, nlohmann::ordered_json& json);
/// Base, width, pairs and scaling of rotary positions, of a model whose heads are known.
/// ConfigError where `rope_scaling` and `rope_parameters` are both there and differ.
void read_rotary(HfConfig& config, const RotaryDefaults& defaults, ModelConfig& model);
/// `partial_rotary_factor`.
void write_rotated_part(const ModelConfig& model, nlohmann::ordered_json& json);
/// The kind of scaling that such an object names; older files call the field `type`.
std::string rope_type(HfConfig& scaling);
/// For families whose code knows no other scaling; "su" is LongRoPE in the first files.
void refuse_all_but_longrope(HfConfig& config, std::string_view family);
/// Fills the fields of a rope_scaling (or rope_parameters) object; ConfigError for kinds not
/// supported.
void read_rope_scaling(HfConfig& scaling, int64_t max_positions, RotarySpec& rotary);
/// The same as JSON (null without scaling).
nlohmann::ordered_json write_rope_scaling(const RotarySpec& rotary);
/// Of query · key in latent attention: 1 / sqrt(head_dim), with YaRN times the square of
/// 0.1 · mscale_all_dim · ln(factor) + 1 (DeepSeek-AI's code for V2 and V3).
double latent_attention_scale(const ModelConfig& model);
/// What `auto` means for the Gemma families.
void resolve_gemma(ModelFields& fields);
/// Soft-caps of a Gemma family for absent fields of config.json; 0: none.
struct GemmaCaps {
  double attention_cap = 0, logit_cap = 0;
};
/// From Gemma 2 on: activation, scales, soft-caps and norms on both sides of each branch.
void read_gemma_attention(HfConfig& config, const GemmaCaps& defaults, ModelConfig& model);
void write_gemma_attention(const ModelConfig& model, nlohmann::ordered_json& json);
/// The names of a descendant of Llama with norms on both sides (Gemma 2 and 3), or only after its
/// branches (OLMo 2 and 3).
TensorNames gemma_norm_names();
/// ConfigError if the model attends forwards too (`use_bidirectional_attention` of the Gemma
/// families).
void refuse_bidirectional(HfConfig& config);
/// Names of the tensors of a descendant of Llama.
TensorNames llama_names();

/// Command R, whose absent `rope_theta` is `base`, and what `auto` means for it but the base.
ModelConfig read_cohere(HfConfig& config, double base);
nlohmann::ordered_json write_cohere(const ModelConfig& model);
void resolve_cohere(ModelFields& fields);

/// ERNIE 4.5 without biases and experts, and what `auto` means for it. `default_head_dim`: 0:
/// hidden size / heads.
ModelConfig read_ernie(HfConfig& config, int64_t default_head_dim);
void resolve_ernie(ModelFields& fields);

/// GPT-2, and what `auto` means for it. Written is any number of key-value heads, for which its
/// files have no field.
ModelConfig read_gpt2(HfConfig& config);
nlohmann::ordered_json write_gpt2(const ModelConfig& model);
void resolve_gpt2(ModelFields& fields);
TensorNames gpt2_names();

/// Granite's factors on embeddings, scores, branches and logits.
void read_granite_factors(HfConfig& config, ModelConfig& model);
void write_granite_factors(const ModelConfig& model, nlohmann::ordered_json& json);
void resolve_granite(ModelFields& fields);
/// The same with experts, and what `auto` means for it.
ModelConfig read_granitemoe(HfConfig& config);
nlohmann::ordered_json write_granitemoe(const ModelConfig& model);
TensorNames granitemoe_names();
void resolve_granitemoe(ModelFields& fields);

/// GLM 4 in its first form, and what `auto` means for it.
ModelConfig read_glm(HfConfig& config);
nlohmann::ordered_json write_glm(const ModelConfig& model);
TensorNames glm_names();
void resolve_glm(ModelFields& fields);

/// Hunyuan's attention, and what `auto` means for it.
ModelConfig read_hunyuan(HfConfig& config);
nlohmann::ordered_json write_hunyuan(const ModelConfig& model);
void resolve_hunyuan(ModelFields& fields);

/// OLMo 2 and 3 without their windows, and what `auto` means for them.
ModelConfig read_olmo(HfConfig& config, const RotaryDefaults& rotary);
void resolve_olmo(ModelFields& fields);

/// Windows by layer in the Qwen families: the layers from max_window_layers on, if enabled.
std::vector<int64_t> read_qwen_windows(HfConfig& config, int64_t layers);
/// The same for those with experts, whose layers with a window must be listed: ConfigError where
/// only max_window_layers says them.
std::vector<int64_t> read_listed_windows(HfConfig& config, int64_t layers);
/// Adds the window fields of the Qwen families.
void write_qwen_windows(const ModelConfig& config, nlohmann::ordered_json& json);

/// The number of experts, at least 1, under any of the names that transformers has for it; `name`
/// is the family's own. ConfigError otherwise, and where two of them differ.
int64_t read_experts(HfConfig& config, const std::string& name, int64_t fallback);
/// What Hugging Face's own training does with routers: the coefficient of its balancing loss.
/// ConfigError for noise on their inputs.
void read_router_training(HfConfig& config, MoeConfig& moe);
/// The same as JSON.
void write_router_training(const MoeConfig& moe, nlohmann::ordered_json& json);
/// For families without dense layers.
void expect_experts_everywhere(const ModelConfig& model, FamilyChoices& choices);
/// For families whose weights are a softmax over the chosen experts alone.
void expect_softmax_of_chosen(const ModelConfig& model, FamilyChoices& choices);
/// For families whose experts are as wide as a dense feed-forward.
void expect_experts_of_full_width(const ModelConfig& model, FamilyChoices& choices);
void expect_no_shared_expert(const ModelConfig& model, FamilyChoices& choices);
/// Defaults of Mixtral and GPT-OSS for absent fields of config.json.
struct LocalExperts {
  int64_t experts = 1, topk = 1;
};
/// Their experts: the same number in every layer, as wide as a dense feed-forward, weighted by a
/// softmax over the chosen ones. ConfigError for what is not supported.
void read_local_experts(HfConfig& config, const LocalExperts& defaults, ModelConfig& model);
/// For such weights: ConfigError where a token has one expert, which `field` says.
void refuse_weight_of_one(const HfConfig& config, std::string_view field, const ModelConfig& model);
void expect_local_experts(const ModelConfig& model, FamilyChoices& choices);
void write_local_experts(const ModelConfig& model, nlohmann::ordered_json& json);
/// Names of a descendant of Llama whose experts are under `block_sparse_moe`.
TensorNames mixtral_names();
/// Defaults of the Qwen families for absent fields of config.json.
struct QwenExperts {
  int64_t experts = 1, topk = 1, feed_forward = 0;
};
/// The experts of the Qwen families, except the shared one: their number, routing and width, and
/// which layers have them. ConfigError for what is not supported.
void read_qwen_experts(HfConfig& config, const QwenExperts& defaults, ModelConfig& model);
void write_qwen_experts(const ModelConfig& model, nlohmann::ordered_json& json);
/// Names of the tensors of a descendant of Llama with experts under `mlp.experts`.
TensorNames sparse_llama_names();

/// Defaults of a DeepSeek family for absent fields of config.json.
struct DeepSeekDefaults {
  int64_t experts = 1, topk = 1, feed_forward = 0, shared_experts = 1, dense_layers = 0;
  double scaling = 1;
  double norm_eps = 1e-6;  // of layer norms, and what follows of latent attention
  int64_t q_rank = 1536, plain_dim = 128, value_dim = 128;
};
/// Their experts: number, width, the one for all tokens, and the first layers, which are dense.
/// ConfigError for what is not supported.
void read_deepseek_experts(HfConfig& config, const DeepSeekDefaults& defaults, ModelConfig& model);
void expect_deepseek_experts(const ModelConfig& model, FamilyChoices& choices);
void write_deepseek_experts(const ModelConfig& model, nlohmann::ordered_json& json);
void resolve_deepseek_experts(const DeepSeekDefaults& defaults, MoeFields& moe);
/// Defaults of DeepSeek-V3's choice of experts.
struct DeepSeekChoice {
  int64_t groups = 1, group_topk = 1;
  bool normalize = true;
};
/// By sigmoid scores plus a bias, from groups that their two best experts stand for.
void read_deepseek_choice(HfConfig& config, const DeepSeekChoice& defaults, MoeConfig& moe);
void expect_deepseek_choice(const ModelConfig& model, FamilyChoices& choices);
void write_deepseek_choice(const ModelConfig& model, nlohmann::ordered_json& json);
void resolve_deepseek_choice(const DeepSeekChoice& defaults, MoeFields& moe);
/// `num_nextn_predict_layers`, as DeepSeek-V3's folders have them.
void read_multi_token_layers(HfConfig& config, ModelConfig& model);
/// Names of a descendant of Llama with such experts.
TensorNames deepseek_expert_names();
/// Latent attention and the experts of the DeepSeek families; the choice of experts is the
/// caller's. ConfigError for what is not supported.
ModelConfig read_deepseek(HfConfig& config, const DeepSeekDefaults& defaults);
nlohmann::ordered_json write_deepseek(const ModelConfig& model);
/// What `auto` means for them; the caller resolves the experts.
void resolve_deepseek(ModelFields& fields);
TensorNames deepseek_names();
/// DeepSeek-V3, also under other types.
ModelConfig read_deepseek_v3(HfConfig& config);
nlohmann::ordered_json write_deepseek_v3(const ModelConfig& model);
void resolve_deepseek_v3(ModelFields& fields);

/// Which layers are of `kind` in `layer_types`, whose others are "full_attention"; empty: the field
/// is absent.
std::vector<bool> read_layer_types(HfConfig& config, int64_t layers, const std::string& kind);
/// Windows by layer from `layer_types` where present ("sliding_attention" / "full_attention"), else
/// by `slides(layer)`.
std::vector<int64_t> windows_by_layer(HfConfig& config, int64_t layers, int64_t window,
                                      bool (*slides)(int64_t layer, int64_t from), int64_t from);
/// `sliding_window` where `use_sliding_window` is true, else 0; `unsaid` applies if it is absent.
/// ConfigError if layer_types asks for a window that is off.
int64_t read_switched_window(HfConfig& config, int64_t unsaid);
/// Adds `layer_types`, and `sliding_window` if a layer has one.
void write_layer_types(const ModelConfig& model, nlohmann::ordered_json& json);
/// Adds `sliding_window` of a family whose layers all have the same; null: none.
void write_common_window(const ModelConfig& model, nlohmann::ordered_json& json);
/// 1 for a layer without rotary positions; empty: all have them. In the file's `no_rope_layers` 1
/// stands for those that have them; without it `no_rope_layer_interval` says which is the next
/// without.
std::vector<int64_t> read_layers_without_rotary(HfConfig& config, int64_t layers);
void write_layers_without_rotary(const ModelConfig& model, nlohmann::ordered_json& json);
/// A field that says every how many layers something comes; ConfigError below 1.
int64_t read_interval(HfConfig& config, std::string_view field, int64_t unsaid);

}  // namespace viaduct::families
