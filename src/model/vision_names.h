#pragma once
// Names of the tensors of models with images. Here the text model's are those of its family, and
// those of images "vision_tower.X" and "multi_modal_projector.X". Folders have them in other forms:
//
//   tower                        text model              head
//   vision_tower.vision_model.X  language_model.model.X  language_model.lm_head.X   most published
//   vision_tower.X               language_model.model.X  language_model.lm_head.X   transformers 5
//   model.vision_tower.…         model.language_model.X  lm_head.X                  transformers 4
//
// The start of the tower's names says which form a folder has.

#include <optional>
#include <string>
#include <string_view>

#include "model/model_config.h"

namespace viaduct {

/// The field of config.json in which checkpoints keep that start; absent: kPublishedTower.
inline constexpr const char* kTowerPrefixField = "viaduct_tower_names";

bool is_tower_prefix(std::string_view prefix);
/// The start that a folder with a tensor of this name has, if the name says so.
std::optional<std::string> tower_prefix_of(std::string_view stored_name);

/// The name here of a folder's tensor; nothing for constants that no layer reads.
std::optional<std::string> image_model_name(std::string_view stored_name);
/// The folder's name of one of these, in the form that begins with `tower_prefix`.
std::string stored_image_name(const std::string& name, std::string_view tower_prefix);

/// Of the tower's blocks and of what is around them.
TensorNames tower_names(TowerKind kind);

}  // namespace viaduct
