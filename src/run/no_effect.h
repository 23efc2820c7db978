#pragma once
// Settings that the user gave and that change nothing in this run, with the reason: what is said at
// start in place of ignoring them. (What excludes each other is an error, run/validate.h.)

#include <string>
#include <vector>

#include "run/run_config.h"

namespace viaduct {

/// One line a reason: "model.pipeline_dtype has no effect here: pipeline_model_parallel_size = 1".
/// `config` is resolved; `outcome` says what was given. A value that the run would have without
/// being told asks for nothing and is in no line.
std::vector<std::string> settings_without_effect(const RunConfig& config,
                                                 const ConfigOutcome& outcome);

}  // namespace viaduct
