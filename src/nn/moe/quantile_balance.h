#pragma once
// The load biases that an update sets (ops/load_quantile.h), from the margins that the routers of
// all ranks counted in the step.

#include <utility>
#include <vector>

#include "comm/parallel_groups.h"
#include "nn/parameter.h"
#include "ops/dispatch.h"

namespace viaduct {

class RouterLog;

/// New values, whole, of load biases, in the order of their layers: memory is given back in the
/// same order in each run.
using LoadBiases = std::vector<std::pair<const Parameter*, Tensor>>;

/// Those of the layers in `log`, nothing where it is null or has no margins. Adds the margins of
/// all ranks that have other tokens of these layers to those of the log; called by all of them.
/// Counts are integers, and so every rank has the same bits, in every layout that has the same
/// logits.
LoadBiases quantile_biases(OpContext& context, const ParallelGroups& groups, RouterLog* log);

}  // namespace viaduct
