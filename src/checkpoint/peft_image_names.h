#pragma once
// Names in the files of an adapter for a model with images. PEFT has those of the model's class:
// "model.language_model.layers.0.self_attn.q_proj" and "model.vision_tower.encoder.layers.0…" with
// transformers 5, other forms with older ones (model/vision_names.h). Here, and in the checkpoints
// of runs, the text model's names are its family's, and the tower's "vision_tower.X".

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/peft_targets.h"
#include "checkpoint/tensor_source.h"
#include "model/model_config.h"

namespace viaduct {

struct OwnNames {
  std::unique_ptr<TensorSource> tensors;  // under the names here
  /// Of modules whose names in the files are others: those.
  std::map<std::string, std::string> stored_modules;
  /// Modules that trained beside adapters, and are left out.
  std::vector<std::string> left_out;
};

/// The tensors of an adapter's files under the names here, with PEFT's prefix. Left out are
/// adapters that nothing reads: of blocks of the tower behind the last that is read and of its
/// pooling head, which PEFT's "all-linear" takes too; and, where `model` is a text model alone, of
/// all of the tower and the projector, with what else the files have of these. IoError where two
/// tensors have the same name then.
OwnNames with_own_names(std::unique_ptr<TensorSource> stored, const ModelConfig& model);

/// What adapter_config.json calls modules: as the files' tensors, or, beside a run's, as PEFT.
class PeftModuleNames {
 public:
  PeftModuleNames(const OwnNames& own, const PeftTargets& targets, bool of_run);
  /// Of the module `name` here.
  std::string of(const std::string& name) const;

 private:
  const std::map<std::string, std::string>& stored_;
  bool as_peft_ = false;
};

/// modules_to_save under the names here, without those that are left out.
std::vector<std::string> own_saved_modules(std::vector<std::string> saved, const OwnNames& own);

/// The name in PEFT's files of a tensor under PEFT's prefix.
std::string peft_file_name(const ModelConfig& model, const std::string& name);

}  // namespace viaduct
