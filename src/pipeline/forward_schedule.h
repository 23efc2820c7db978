#pragma once
// The schedule of a forward-only batch: evaluation and generation.

#include "pipeline/schedule.h"

namespace viaduct {

/// `run` for micro-batches through `pp` stages, without backward.
inline ScheduleSettings forward_schedule(ScheduleSettings run, int pp, int64_t micro_batches = 1) {
  run.pp = pp;
  run.micro_batches = micro_batches;
  run.backward = false;
  run.deferred_heads = 0;
  run.combines = run.delays_weights = false;
  // With sequential messages, a stage would wait for one that its peer sends only later.
  if (run.virtual_stages > 1) run.messages = PointToPoint::overlapped;
  return run;
}

}  // namespace viaduct
