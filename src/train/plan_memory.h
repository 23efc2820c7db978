#pragma once
// Places for all memory of a run, from a dry run of the same engine: what its device allocates,
// when and for how long, is known before the first step.

#include "train/dry_run.h"

namespace viaduct {

struct PlannedMemory {
  MemoryPlan plan;
  /// By the dry run: bytes in use at the fullest moment, by owner.
  StepRecord::Peak peak;
  /// No arena with the same resident memory is smaller.
  int64_t lower_bound_bytes = 0;
  OffloadCounts offload;  // of a step
  double seconds = 0;     // that dry run and placement took
};

/// For `rank` of the run that `setup` describes: setup, initial weights, steps, and evaluations
/// where there are some.
PlannedMemory plan_memory(const RunSetup& setup, GlobalRank rank = {0});

}  // namespace viaduct
