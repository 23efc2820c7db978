#pragma once
// Where the time of a stage's compute stream goes.

#include <array>
#include <map>
#include <string>

#include "engine/dry_run.h"
#include "plan/op_time.h"
#include "timeline/resolver.h"

namespace viaduct {

/// Where the time of a stage's compute stream goes, in seconds of a step; they add up to the step.
struct StageTime {
  double compute = 0;                              // ops of forward and backward
  std::array<double, kOpKinds> compute_by_kind{};  // of that, by OpKind
  double optimizer = 0;                            // ops of the optimizer
  std::map<std::string, double> exposed;           // by group: compute waits while its data moves
  double bubble = 0;  // compute waits for other stages or ranks to arrive
  double host = 0;    // compute waits for launches
};

/// Times of the second step only, counted from its begin.
struct StepTimes {
  const StepRecord& record;
  const RankTimes& times;
  SequenceWindow step;
  double begin;

  bool inside(int64_t at) const { return at >= step.begin && at < step.end; }
};

/// `end`: of the step on all stages; a stage that is done before waits for them.
StageTime stage_time(const StepTimes& of, double end);

}  // namespace viaduct
