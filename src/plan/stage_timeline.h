#pragma once
// When a stage's phases run in a predicted step, and how many bytes it has in use meanwhile.

#include <string>
#include <vector>

#include "engine/dry_run.h"
#include "timeline/resolver.h"

namespace viaduct {

/// A phase of the step ("forward", "optimizer"), from its first to its last op on the compute
/// stream. Seconds count from the begin of the step.
struct PhaseSpan {
  std::string name;
  int64_t micro_batch = -1;  // −1: of the whole step
  int chunk = -1;
  TimeSpan span;
};

struct MemoryPoint {
  double seconds = 0;
  int64_t bytes = 0;
};

struct StageTimeline {
  std::vector<PhaseSpan> phases;    // by begin
  std::vector<MemoryPoint> memory;  // by time; at most 2 · kMemoryPoints
};

inline constexpr int kMemoryPoints = 400;

/// The step is the part `step` of the record, in virtual time from `begin` to `end`. The memory
/// curve has, for each of kMemoryPoints equal parts of the step, the least and the most bytes.
StageTimeline stage_timeline(const StepRecord& record, const RankTimes& times,
                             const SequenceWindow& step, double begin, double end);

}  // namespace viaduct
