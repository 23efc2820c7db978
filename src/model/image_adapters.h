#pragma once
// Adapters in models with images: the linear layers of the vision tower and of the projector, and
// the names that modules have where the whole model is PEFT's.

#include <string>
#include <vector>

#include "model/adapter_modules.h"
#include "model/model_config.h"

namespace viaduct {

/// In peft.target_modules: every matrix of the tower's blocks that are read, or of the projector.
/// Only patterns that have one of these words, or that are for nothing of the text model, ask for
/// modules of images.
inline constexpr const char* kTowerPattern = "vision_tower";
inline constexpr const char* kProjectorPattern = "multi_modal_projector";

/// The start of the tower's names in PEFT's files.
inline constexpr const char* kPeftTower = "model.vision_tower.";

/// Whether a pattern names the tower or the projector.
bool names_image_part(const std::string& pattern);

/// Whether a module is one of the tower or of the projector that `pattern` names as a whole, or a
/// part of it ("vision_tower.encoder").
bool is_in_image_part(const std::string& module, const std::string& pattern);

/// Adds the tower's and the projector's modules of a model with images behind its text model's, and
/// gives all of them their names in PEFT's files.
void add_image_modules(const ModelConfig& model, std::vector<AdaptableModule>& modules);

/// Whether a pattern names a block of the tower that nothing reads: vision_feature_layer takes the
/// output of an earlier one.
bool names_unread_block(const ModelConfig& model, const std::string& pattern);

/// The name of a module, or of a tensor, in the classes of transformers 5, which PEFT's files have:
/// "model.language_model.norm" of "model.norm", "model.vision_tower.X" of "vision_tower.X". The
/// name itself for a model without images.
std::string peft_module_name(const ModelConfig& model, const std::string& module);
std::string peft_tensor_name(const ModelConfig& model, const std::string& tensor);

/// Says in a model's settings which parts of it get gradients under adapters, where what else the
/// model has is frozen (AdapterSettings::any). ConfigError for settings that freeze parts beside.
void freeze_images(const AdapterSettings& adapters, VisionConfig& vision);

}  // namespace viaduct
