#pragma once
// Places for all memory of a run, from a dry run of the same engine: what its device allocates,
// when and for how long, is known before the first step.

#include "engine/dry_run.h"
#include "timeline/frames.h"

namespace viaduct {

/// A saved tensor of a step that a frame has a place for.
struct FramedAllocation {
  size_t index = 0;  // in the plan's sequence of steps
  int chunk = 0;
  int64_t micro_batch = 0;
  int64_t offset = 0;  // in its frame
};

struct PlannedMemory {
  MemoryPlan plan;
  /// Of steps: what a chunk keeps of a micro-batch for its backward lies in a frame (kinds are
  /// chunks, instances micro-batches). None if there is only one micro-batch, where micro-batches
  /// differ, and where frames would take too much (timeline/frames.h).
  std::vector<Frame> frames;
  std::vector<FramedAllocation> framed;
  /// By the dry run: bytes in use at the fullest moment, by owner.
  StepRecord::Peak peak;
  /// Lower bound: no arena with the same resident memory is smaller.
  int64_t lower_bound_bytes = 0;
  OffloadCounts offload;                // of a step
  int64_t save_copy_bytes = 0;          // as DryRun
  std::set<std::string> library_calls;  // as DryRun
  double seconds = 0;                   // that the dry run and the placement took
};

/// For `rank` of the run that `setup` describes: setup, initial weights, steps, and evaluations
/// where there are some.
PlannedMemory plan_memory(const RunSetup& setup, GlobalRank rank = {0});

}  // namespace viaduct
