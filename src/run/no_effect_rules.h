#pragma once
// When fields have nothing to act on, by subject: the tables behind run/no_effect.h.

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

inline std::string reason_if(bool holds, std::string reason) {
  return holds ? std::move(reason) : std::string();
}

const std::vector<NoEffectRule>& experts_without_effect();
const std::vector<NoEffectRule>& precision_without_effect();
const std::vector<NoEffectRule>& layout_without_effect();
const std::vector<NoEffectRule>& training_without_effect();
const std::vector<NoEffectRule>& gpus_without_effect();

}  // namespace viaduct
