#pragma once
// The length of a run in steps and rows, and the rows of each step.

#include "config/problems.h"
#include "optim/batch_schedule.h"
#include "run/run_config.h"

namespace viaduct {

/// Rows of the run's steps. Requires that `validate_run_length` found no problem.
BatchSchedule batch_schedule(const RunConfig& config);

/// Total rows read by training: the size of the data set to build. A run that continues after
/// `step` steps, which read `consumed` rows (perhaps in batches of another size), reads those of
/// the steps that are left.
int64_t training_rows(const RunConfig& config, int64_t step = 0, int64_t consumed = 0);

/// train.train_iters for a run with a length in rows.
void resolve_run_length(RunConfig& config);

/// Checks train.train_samples, rampup_batch_size and decrease_batch_size_if_needed.
void validate_run_length(const RunConfig& config, const ConfigOutcome& outcome, Problems& problems);

}  // namespace viaduct
