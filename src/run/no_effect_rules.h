#pragma once
// When fields have nothing to act on, by subject, where that depends on the settings of several
// folders; what a folder's own say is in its fields (config/idle_rule.h).

#include <string>
#include <string_view>
#include <vector>

#include "run/run_config.h"

namespace viaduct {

/// Fields that have nothing to act on where `reason` gives one; "" where they have. The
/// configuration is resolved.
struct NoEffectRule {
  std::vector<std::string_view> fields;
  std::string (*reason)(const RunConfig&, const ConfigOutcome&);
};

const std::vector<NoEffectRule>& experts_without_effect();
const std::vector<NoEffectRule>& precision_without_effect();
const std::vector<NoEffectRule>& layout_without_effect();
const std::vector<NoEffectRule>& training_without_effect();
const std::vector<NoEffectRule>& data_without_effect();
const std::vector<NoEffectRule>& gpus_without_effect();

}  // namespace viaduct
