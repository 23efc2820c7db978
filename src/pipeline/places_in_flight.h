#pragma once
// Which of the micro-batches that a stage holds at one time each of them is.

#include <map>
#include <utility>

#include "pipeline/action.h"

namespace viaduct {

/// By micro-batch and chunk: with W the most of them that are between forward and backward at one
/// time, the k-th forward of the stage has place k mod W (Megatron's
/// num_microbatches_with_partial_activation_checkpoints, where W is warm-up + 1). What waits for
/// the weight half of some segments does not count as held.
std::map<std::pair<int64_t, int>, int64_t> places_in_flight(const ActionList& actions);

}  // namespace viaduct
