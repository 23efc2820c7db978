#pragma once
// The shards that a training run would write for a model; `convert` writes them without running.

#include "checkpoint/convert.h"
#include "run/run_config.h"

namespace viaduct {

/// The shards that the ranks of `loaded`'s layout save of the model in `from`: the same pieces on
/// the same ranks. Each rank's part of the model is laid out on the sim device, without memory.
/// ConfigError if the layout does not fit the model.
ShardPlan checkpoint_shards(const ModelFolder& from, LoadedRunConfig loaded);

}  // namespace viaduct
