#pragma once
// How long a run is, in steps and in rows, and how many rows each of its steps takes.

#include "config/problems.h"
#include "optim/batch_schedule.h"
#include "train/run_config.h"

namespace viaduct {

/// Rows of the run's steps. What `validate_run_length` finds has to be empty.
BatchSchedule batch_schedule(const RunConfig& config);

/// Rows that training reads, all in all: the data set is built for so many.
int64_t training_rows(const RunConfig& config);

/// train.train_iters of a run whose length is given in rows.
void resolve_run_length(RunConfig& config);

/// train.train_samples, rampup_batch_size and decrease_batch_size_if_needed: what is wrong with
/// them.
void validate_run_length(const RunConfig& config, const ConfigOutcome& outcome, Problems& problems);

}  // namespace viaduct
