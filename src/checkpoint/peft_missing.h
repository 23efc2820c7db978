#pragma once
// Tensors that adapter_config.json asks for and the files of an adapter lack: such a layer would
// work without its adapter, and nothing would say so.

#include <map>
#include <string>
#include <vector>

#include "checkpoint/peft_contents.h"
#include "checkpoint/peft_image_names.h"
#include "checkpoint/peft_settings.h"
#include "model/adapter_modules.h"

namespace viaduct {

/// What the files of an adapter are compared with.
struct AskedAdapters {
  const PeftSettings& settings;
  const PeftModuleNames& names;
  /// Modules that have their adapter from a parameter of PEFT's (peft_experts.h), which says which.
  const std::map<std::string, std::string>& parameters;
  bool experts = false;  // the model has some: PEFT may take a name of theirs from other layers
  bool of_run = false;   // a run's checkpoint: it holds what it was saved with
};

/// IoError, naming `where`, the first tensors and their number, unless each module that has some
/// tensors of an adapter has them all, and each of `modules` that the settings ask for has them.
/// Layers of multi-token prediction, which PEFT's models lack, are not asked for; nor are kinds of
/// layers that may be no linear ones there (experts, routers) if none of the kind has an adapter.
void check_complete(const PeftContents& contents, const AskedAdapters& asked,
                    const std::vector<AdaptableModule>& modules, const std::string& where);

/// IoError as there if there are missing tensors at all.
void fail_if_missing(const std::vector<std::string>& tensors, const std::string& where);

}  // namespace viaduct
