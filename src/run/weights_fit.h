#pragma once
// Whether the weights that a run starts from are of its model.

#include "model/model_config.h"
#include "run/setup.h"

namespace viaduct {

/// ConfigError if the settings make another model than the weights that it starts from have, which
/// are of `base`: the settings that differ from it. Nothing where the weights cannot be opened: a
/// plan needs none, and a run reports it when it reads them.
void check_weights_fit(const RunSetup& setup, const ModelConfig& base);

}  // namespace viaduct
