#pragma once
// The part of a model that reads images, as data: a vision transformer, its features of some
// layers, and the projector that makes rows of the text model's width of them (LLaVA; Liu et al.
// 2023, arXiv 2304.08485 and 2310.03744).

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/activation.h"

namespace viaduct {

struct ModelConfig;

/// Which vision transformer: CLIP's has a class token, no bias on its patches, and a norm before
/// its blocks; SigLIP's has a bias and none of these.
enum class TowerKind { clip, siglip };
constexpr auto choice_names(TowerKind) {
  return std::to_array<std::string_view>({"clip_vision_model", "siglip_vision_model"});
}

/// mlp: two linear layers (LLaVA). pooled: the norm after the tower's blocks, the mean over squares
/// of patches, an RMS norm and one matrix (Gemma 3; Gemma Team 2025, arXiv 2503.19786,
/// section 2.1).
enum class ProjectorKind { mlp, pooled };

/// Folders have their names in two or three forms (model/vision_names.h); this is the one of most
/// published ones.
inline constexpr const char* kPublishedTower = "vision_tower.vision_model.";

struct VisionConfig {
  TowerKind tower = TowerKind::clip;
  int64_t layers = 0;  // 0: the model reads no images
  int64_t hidden = 0, feed_forward = 0, heads = 0;
  int64_t channels = 3, image_size = 0, patch_size = 0;  // pixels of a side
  ActivationKind activation = ActivationKind::quick_gelu;
  double norm_eps = 1e-5, attention_dropout = 0;
  /// Its weights include those of SigLIP's pooling head, which nothing reads.
  bool pooling_head = false;

  /// The stream after so many blocks is read, side by side in this order; 0: before the first.
  std::vector<int64_t> feature_layers;
  bool drops_first = true;  // of each image's tokens
  ProjectorKind projector = ProjectorKind::mlp;
  int64_t pooled_side = 0;  // of the square of an image's rows, pooled
  /// Tokens of an image see each other in the text model, and not only those behind.
  bool sees_ahead = false;
  ActivationKind projector_activation = ActivationKind::gelu;
  bool projector_bias = true;
  int64_t image_token = 0;  // stands in the rows once for each of an image's features

  /// Neither changes: of the tower, the projector, the text model.
  bool freeze_tower = false, freeze_projector = false, freeze_text = false;

  std::string tower_prefix = kPublishedTower;  // of the folder's names
  std::vector<std::string> unknown_fields;     // of vision_config; they look harmless
  std::string fields;  // config.json without the text model's, as text; "": not read from one

  bool any() const { return layers > 0; }
  /// Whether the rows that the text model gets have a gradient.
  bool trains_features() const { return !freeze_tower || !freeze_projector; }
  int64_t patches() const {
    const int64_t side = image_size / patch_size;
    return side * side;
  }
  /// Tokens of an image in the tower.
  int64_t tokens() const { return patches() + (tower == TowerKind::clip ? 1 : 0); }
  /// Rows that the text model gets of an image.
  int64_t rows() const {
    return projector == ProjectorKind::pooled ? pooled_side * pooled_side
                                              : tokens() - (drops_first ? 1 : 0);
  }
  /// Blocks that have an effect.
  int64_t read_layers() const {
    return feature_layers.empty() ? 0
                                  : *std::max_element(feature_layers.begin(), feature_layers.end());
  }
};

/// Whether layers for images are part of what is read: without them a model that has them is its
/// text model (model/text_half.h).
enum class ImageLayers { left_out, read };

/// The images' half of the text of a config.json; nothing for models without images, and for kinds
/// whose images are not implemented. ConfigError (with `where`) for values that are not supported;
/// IoError for text that is not JSON.
std::optional<VisionConfig> read_vision_config(std::string_view text, const std::string& where);

/// The text of the config.json of a model with images, from that of its text model.
std::string with_vision_config(const ModelConfig& config, const std::string& text_model);

/// Sizes that do not fit together, each a text about a field.
std::vector<std::string> vision_problems(const ModelConfig& config);

/// The tower's blocks as a model of their own, for the makers of layers; how attention is computed
/// is that of `text`.
ModelConfig tower_blocks(const VisionConfig& vision, const ModelConfig& text);

}  // namespace viaduct
