// The fields of config.json about images, of the folders of LLaVA and Gemma 3.

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "config/choice.h"
#include "model/families/families.h"
#include "model/hf_config.h"
#include "model/model_config.h"
#include "model/vision_names.h"

namespace viaduct {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kText = "text_config";
constexpr const char* kVision = "vision_config";
constexpr JsonLimits kLimits{.bytes = size_t{16} << 20, .depth = 32};

/// A number of pixels, which may be a list of the same for each side.
int64_t square(HfConfig& config, std::string_view field, int64_t fallback) {
  const std::vector<int64_t> sides = config.integers(field);
  if (sides.empty()) return fallback;
  for (const int64_t side : sides)
    VIADUCT_CHECK(ConfigError, side == sides.front() && sides.size() <= 2,
                  "{}: {}: expected one number of pixels, or two that are equal", config.where(),
                  field);
  return sides.front();
}

/// Defaults of the configuration classes of transformers.
struct TowerDefaults {
  int64_t hidden = 768, feed_forward = 3072, layers = 12, heads = 12, image = 224, patch = 32;
};

/// CLIP's is that of the class LlavaConfig where there is no vision_config.
TowerDefaults defaults_of(TowerKind kind, bool whole) {
  if (kind == TowerKind::siglip) return {.patch = 16};
  if (whole) return {1024, 4096, 24, 16, 336, 14};
  return {};
}

void read_tower(HfConfig& config, bool whole, VisionConfig& vision) {
  const bool clip = vision.tower == TowerKind::clip;
  const TowerDefaults defaults = defaults_of(vision.tower, whole);
  vision.hidden = config.integer("hidden_size", defaults.hidden);
  vision.feed_forward = config.integer("intermediate_size", defaults.feed_forward);
  vision.layers = config.integer("num_hidden_layers", defaults.layers);
  vision.heads = config.integer("num_attention_heads", defaults.heads);
  vision.channels = config.integer("num_channels", 3);
  vision.image_size = square(config, "image_size", defaults.image);
  vision.patch_size = square(config, "patch_size", defaults.patch);
  vision.activation =
      families::activation_from_hf(config, "hidden_act", clip ? "quick_gelu" : "gelu_pytorch_tanh");
  vision.norm_eps = config.number("layer_norm_eps", clip ? 1e-5 : 1e-6);
  vision.attention_dropout = config.number("attention_dropout", 0);
  vision.pooling_head = !clip && config.boolean("vision_use_head", true);
  // Of parts that are not read, or only before training.
  config.ignore({"model_type", "projection_dim", "vocab_size", "initializer_factor",
                 "initializer_range", "max_position_embeddings", "dropout", "tie_word_embeddings"});
  vision.unknown_fields = config.finish();
}

/// Where the listed features are read: blocks before them. Negative numbers count from the end.
std::vector<int64_t> read_feature_layers(HfConfig& config, int64_t layers) {
  const bool given = config.has("vision_feature_layer");
  std::vector<int64_t> read = config.integers("vision_feature_layer");
  VIADUCT_CHECK(ConfigError, !given || !read.empty(),
                "{}: vision_feature_layer: [], expected a layer or a list of them", config.where());
  if (!given) read = {-2};
  for (int64_t& layer : read) {
    const int64_t stated = layer;
    if (layer < 0) layer += layers + 1;
    VIADUCT_CHECK(ConfigError, layer >= 0 && layer <= layers,
                  "{}: vision_feature_layer: {}, expected {} to {}, as the tower has {} layers",
                  config.where(), stated, -layers - 1, layers, layers);
  }
  return read;
}

void read_llava(HfConfig& config, VisionConfig& vision) {
  vision.feature_layers = read_feature_layers(config, vision.layers);
  const std::string strategy = config.text("vision_feature_select_strategy", "default");
  VIADUCT_CHECK(ConfigError, strategy == "default" || strategy == "full",
                "{}: vision_feature_select_strategy: {}, expected default or full", config.where(),
                strategy);
  vision.drops_first = strategy == "default";
  vision.projector_activation =
      families::activation_from_hf(config, "projector_hidden_act", "gelu");
  vision.projector_bias = config.boolean("multimodal_projector_bias", true);
}

/// Gemma 3.
void read_pooled(HfConfig& config, VisionConfig& vision) {
  vision.projector = ProjectorKind::pooled;
  vision.feature_layers = {vision.layers};
  vision.drops_first = false, vision.sees_ahead = true;
  const int64_t rows = config.integer("mm_tokens_per_image", 256);
  while (vision.pooled_side * vision.pooled_side < rows && vision.pooled_side < (1 << 15))
    ++vision.pooled_side;
  VIADUCT_CHECK(ConfigError, rows >= 1 && vision.pooled_side * vision.pooled_side == rows,
                "{}: mm_tokens_per_image: {}, expected the square of a number", config.where(),
                rows);
}

}  // namespace

std::optional<VisionConfig> read_vision_config(std::string_view text, const std::string& where) {
  Json json = parse_json<Json>(text, where, kLimits);
  const auto model = json.is_object() ? json.find("model_type") : json.end();
  if (model == json.end() || (*model != "llava" && *model != "gemma3")) return std::nullopt;
  const bool gemma = *model == "gemma3";
  HfConfig config(text, where);
  const bool whole = !config.has(kVision);
  HfConfig inner = whole ? HfConfig("{}", where) : config.object(kVision);
  const auto kind = choice_of<TowerKind>(
      inner.text("model_type", gemma ? "siglip_vision_model" : "clip_vision_model"));
  if (!kind || (gemma && *kind != TowerKind::siglip)) return std::nullopt;
  VisionConfig vision;
  vision.tower = *kind;
  read_tower(inner, whole && !gemma, vision);
  VIADUCT_CHECK(ConfigError, vision.layers >= 1,
                "{}: {}: num_hidden_layers: {}, expected at least 1", where, kVision,
                vision.layers);
  gemma ? read_pooled(config, vision) : read_llava(config, vision);
  vision.image_token = config.has("image_token_index")
                           ? config.integer("image_token_index")
                           : config.integer("image_token_id", gemma ? 262144 : 32000);
  vision.tower_prefix = config.text(kTowerPrefixField, kPublishedTower);
  VIADUCT_CHECK(ConfigError, is_tower_prefix(vision.tower_prefix),
                "{}: {}: {} is not the start of names of a vision tower", where, kTowerPrefixField,
                vision.tower_prefix);
  json.erase(kText);
  json.erase(kTowerPrefixField);
  vision.fields = json.dump(2);
  return vision;
}

std::string with_vision_config(const ModelConfig& config, const std::string& text_model) {
  Json json = parse_json<Json>(config.vision.fields, "config.json", kLimits);
  json["tie_word_embeddings"] = config.tied_embeddings;
  json["image_token_index"] = config.vision.image_token;
  if (config.vision.tower_prefix != kPublishedTower)
    json[kTowerPrefixField] = config.vision.tower_prefix;
  json[kText] = parse_json<Json>(text_model, "config.json", kLimits);
  json[kText].erase("architectures");
  return json.dump(2) + "\n";
}

}  // namespace viaduct
