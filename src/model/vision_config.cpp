#include "model/vision_config.h"

#include <cmath>

#include "base/error.h"
#include "base/units.h"
#include "model/model_config.h"

namespace viaduct {

std::vector<std::string> vision_problems(const ModelConfig& config) {
  const VisionConfig& v = config.vision;
  std::vector<std::string> problems;
  if (!v.any()) return problems;
  const auto expect = [&](bool holds, std::string text) {
    if (!holds) problems.push_back("vision_config: " + std::move(text));
  };
  constexpr int64_t kMost = int64_t{1} << 20;
  for (const auto& [name, value] : {std::pair{"num_hidden_layers", v.layers},
                                    {"hidden_size", v.hidden},
                                    {"intermediate_size", v.feed_forward},
                                    {"num_attention_heads", v.heads},
                                    {"num_channels", v.channels},
                                    {"image_size", v.image_size},
                                    {"patch_size", v.patch_size}})
    expect(value >= 1 && value <= kMost,
           fmt::format("{}: {}, expected 1 to {}", name, value, kMost));
  if (!problems.empty()) return problems;
  expect(v.hidden % v.heads == 0,
         fmt::format("hidden_size: {} does not divide by {} heads", v.hidden, v.heads));
  expect(v.patch_size <= v.image_size,
         fmt::format("patch_size: {} is larger than image_size {}", v.patch_size, v.image_size));
  expect(v.norm_eps > 0 && std::isfinite(v.norm_eps), "layer_norm_eps: expected a number above 0");
  if (!problems.empty()) return problems;
  expect(v.rows() >= 1, fmt::format("an image has {} in the tower, of which the first is dropped",
                                    counted(v.tokens(), "token")));
  if (v.projector == ProjectorKind::pooled) {
    const int64_t side = v.image_size / v.patch_size;
    expect(v.pooled_side >= 1 && side % v.pooled_side == 0,
           fmt::format("{} patches of a side do not divide into {} squares", side, v.pooled_side));
  }
  const auto refuse = [&](bool has, const char* field, std::string_view expected,
                          std::string_view with = "images") {
    if (has)
      problems.push_back(
          fmt::format("model.{} is not implemented with {} (model.read_images); expected {}, or "
                      "model.read_images=false for its text model alone",
                      field, with, expected));
  };
  refuse(config.mtp_layers > 0, "mtp_num_layers", "null");
  refuse(config.encoder.any(), "encoder_num_layers", "0");
  if (v.sees_ahead) {
    constexpr std::string_view kAhead = "images that see tokens ahead of them, as in Gemma 3";
    refuse(config.attention_dropout > 0, "attention_dropout", "0", kAhead);
    refuse(config.attention_softcap > 0, "attn_logit_softcapping", "null", kAhead);
    refuse(config.attention_sinks, "softmax_type", "vanilla", kAhead);
    refuse(config.latent.any(), "multi_latent_attention", "false", kAhead);
    refuse(!config.chunks.empty(), "attention_chunk_size", "null", kAhead);
  }
  if (v.image_token < 0 || v.image_token >= config.vocabulary)
    problems.push_back(fmt::format("image_token_index: {} is outside of the vocabulary of {}",
                                   v.image_token, config.vocabulary));
  return problems;
}

ModelConfig tower_blocks(const VisionConfig& vision, const ModelConfig& text) {
  ModelConfig tower;
  tower.family = text.family;  // only for messages
  tower.layers = vision.layers;
  tower.hidden = vision.hidden, tower.feed_forward = vision.feed_forward;
  tower.heads = tower.kv_heads = vision.heads;
  tower.head_dim = vision.hidden / vision.heads;
  tower.max_positions = vision.tokens();
  tower.norm = NormKind::layer_norm, tower.norm_eps = vision.norm_eps;
  tower.activation = vision.activation, tower.gated = false;
  tower.positions = PositionKind::learned;
  tower.qkv_bias = tower.projection_bias = tower.up_bias = tower.down_bias = true;
  tower.attention_scale = 1 / std::sqrt(static_cast<double>(tower.head_dim));
  tower.attention_dropout = vision.attention_dropout;
  tower.init_std = text.init_std;
  tower.flash_attention = text.flash_attention;
  tower.masked_softmax_fusion = text.masked_softmax_fusion;
  tower.library_attention = text.library_attention;
  tower.softmax_in_fp32 = text.softmax_in_fp32;
  return tower;
}

}  // namespace viaduct
