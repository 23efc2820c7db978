#pragma once
// Detects patterns that match no parameter; needs the model's names.

#include "config/problems.h"
#include "model/model_config.h"
#include "run/run_config.h"

namespace viaduct {

/// A problem for each pattern of the configuration that matches no parameter of the model.
void check_name_patterns(const RunConfig& config, const ModelConfig& model, Problems& problems);

}  // namespace viaduct
