#include "model/vision_names.h"

#include "model/text_half.h"

namespace viaduct {
namespace {

constexpr std::string_view kOuter = "model.", kTower = "vision_tower.", kInner = "vision_model.",
                           kProjector = "multi_modal_projector.", kHead = "lm_head.",
                           kLanguage = "language_model.";

std::string joined(std::string_view a, std::string_view b) {
  return std::string(a).append(b);
}

/// `name` without `prefix`, if it begins so.
bool take(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return true;
}

}  // namespace

bool is_tower_prefix(std::string_view prefix) {
  take(prefix, kOuter);
  if (!take(prefix, kTower)) return false;
  return prefix.empty() || prefix == kInner;
}

std::optional<std::string> tower_prefix_of(std::string_view stored_name) {
  std::string_view rest = stored_name;
  take(rest, kOuter);
  if (!take(rest, kTower)) return std::nullopt;
  take(rest, kInner);
  return std::string(stored_name.substr(0, stored_name.size() - rest.size()));
}

std::optional<std::string> image_model_name(std::string_view stored_name) {
  std::string_view rest = stored_name;
  take(rest, kOuter);
  const std::string_view projector = rest;
  if (take(rest, kTower)) {
    take(rest, kInner);
    // A table of 0, 1, 2, … in older files.
    if (rest.ends_with("embeddings.position_ids")) return std::nullopt;
    return joined(kTower, rest);
  }
  if (projector.starts_with(kProjector)) return std::string(projector);
  const auto text = text_half_name(stored_name);
  // Of other parts for images: they belong to no parameter, which is said.
  return text ? *text : std::string(stored_name);
}

std::string stored_image_name(const std::string& name, std::string_view tower_prefix) {
  const bool outer = tower_prefix.starts_with(kOuter);
  std::string_view rest = name;
  if (take(rest, kTower)) return joined(tower_prefix, rest);
  if (rest.starts_with(kProjector)) return outer ? joined(kOuter, rest) : name;
  if (rest.starts_with(kHead)) return outer ? name : joined(kLanguage, rest);
  if (!outer) return joined(kLanguage, rest);
  return take(rest, kOuter) ? joined(joined(kOuter, kLanguage), rest) : name;
}

TensorNames tower_names(TowerKind kind) {
  const std::string tower(kTower), block = tower + "encoder.layers.{}.";
  TensorNames names;
  names.position_embedding = tower + "embeddings.position_embedding";
  if (kind == TowerKind::clip) names.embedding_norm = tower + "pre_layrnorm";  // so spelled
  names.final_norm = tower + "post_layernorm";
  names.input_norm = block + "layer_norm1";
  names.q = block + "self_attn.q_proj";
  names.k = block + "self_attn.k_proj";
  names.v = block + "self_attn.v_proj";
  names.projection = block + "self_attn.out_proj";
  names.mlp_norm = block + "layer_norm2";
  names.up = block + "mlp.fc1";
  names.down = block + "mlp.fc2";
  return names;
}

}  // namespace viaduct
