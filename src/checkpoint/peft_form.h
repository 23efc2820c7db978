#pragma once
// What PEFT's files hold of an adapter: the experts of a layer are fused, routers are parameters,
// and what PEFT would load as another adapter, or as none, is refused.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/peft_folder.h"

namespace viaduct {

struct PeftForm {
  std::vector<TensorInfo> infos;
  std::map<std::string, Tensor> made;  // those that are not as stored
  std::string config;                  // the text of adapter_config.json
  /// Of a token table that trains and that PEFT's model has in several modules: the tensors of the
  /// others, and the one that each is a copy of.
  std::map<std::string, std::string> copies;
};

/// Why PEFT cannot hold an adapter: the setting of section `peft` that asks for it, and the reason.
struct PeftLimit {
  const char* setting;  // "target_modules"
  std::string reason;
};
/// Nothing for adapters that it can hold.
std::optional<PeftLimit> peft_limit(const AdapterSettings& settings, const ModelConfig& model);

/// ConfigError for adapters that PEFT cannot hold.
PeftForm peft_form(const PeftAdapter& adapter, const ModelConfig& model);

}  // namespace viaduct
