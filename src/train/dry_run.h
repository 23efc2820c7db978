#pragma once
// A training step on the sim device: the same engine and the same calls, nothing computed. What it
// records is what a real step allocates and costs.

#include <map>
#include <string>

#include "timeline/record.h"
#include "train/setup.h"

namespace viaduct {

struct DryRun {
  int64_t parameters = 0;  // true count, padding not counted
  StepRecord::Peak peak;   // bytes by owner at the fullest moment of a step
  Cost cost;               // of all ops of one step
  int64_t launches = 0;
  int64_t host_reads = 0;
  double model_flops = 0;  // by the project's convention, of one step
};

/// Records one step (global batch) of the run that `setup` describes.
DryRun dry_run(const RunSetup& setup);

}  // namespace viaduct
