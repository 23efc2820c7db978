#pragma once
// The place of each micro-batch among those that a stage holds at one time.

#include <map>
#include <utility>

#include "pipeline/action.h"

namespace viaduct {

/// By micro-batch and chunk: with W the maximum number of them between forward and backward at one
/// time, the k-th forward of the stage has place k mod W (Megatron's
/// num_microbatches_with_partial_activation_checkpoints, where W is warm-up + 1). Micro-batches
/// that only wait for the weight half of some segments do not count as held.
std::map<std::pair<int64_t, int>, int64_t> places_in_flight(const ActionList& actions);

}  // namespace viaduct
