#pragma once
// Given settings without effect in this run, with the reason: reported at start instead of being
// ignored. (Conflicting settings are errors, run/validate.h.)

#include <string>
#include <vector>

#include "run/run_config.h"

namespace viaduct {

/// One line a reason: "model.pipeline_dtype has no effect here: pipeline_model_parallel_size = 1".
/// `config` is resolved; `outcome` has the given fields. A value equal to the resolved default,
/// or to what the files of peft.adapter say, is not reported.
std::vector<std::string> settings_without_effect(const RunConfig& config,
                                                 const ConfigOutcome& outcome);

}  // namespace viaduct
