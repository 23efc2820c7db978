#pragma once
// What the attention of a model cannot be, for check_model_config.

#include <string>
#include <vector>

#include "model/model_config.h"

namespace viaduct {

/// Adds to `problems` what does not fit together in heads, their norms, and the keys that a query
/// sees; positions are not checked here.
void check_attention(const ModelConfig& config, std::vector<std::string>& problems);

}  // namespace viaduct
