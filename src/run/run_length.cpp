#include "run/run_length.h"

#include <algorithm>

#include "base/units.h"
#include "run/parallel_settings.h"

namespace viaduct {
namespace {

BatchScheduleSettings batch_settings(const RunConfig& config) {
  const TrainConfig& train = config.train;
  BatchScheduleSettings settings;
  settings.full = train.global_batch_size;
  if (const auto& ramp = train.rampup_batch_size; ramp && ramp->size() == 3)
    settings.ramp = BatchRamp{(*ramp)[0], (*ramp)[1], (*ramp)[2]};
  settings.multiple = std::max<int64_t>(1, train.micro_batch_rows() * data_parallel_size(config));
  settings.round_down = train.decrease_batch_size_if_needed;
  return settings;
}

}  // namespace

BatchSchedule batch_schedule(const RunConfig& config) {
  return BatchSchedule(batch_settings(config));
}

int64_t training_rows(const RunConfig& config, int64_t step, int64_t consumed) {
  const TrainConfig& train = config.train;
  if (train.train_samples) return std::max(*train.train_samples, consumed);
  const int64_t left = std::max<int64_t>(0, train.train_iters - step);
  return batch_schedule(config).samples_after(left, consumed);
}

void resolve_run_length(RunConfig& config) {
  const auto& samples = config.train.train_samples;
  const BatchSchedule batches = batch_schedule(config);
  if (samples && batches.problems().empty())
    config.train.train_iters = batches.steps_within(*samples);
}

void validate_run_length(const RunConfig& config, const ConfigOutcome& outcome,
                         Problems& problems) {
  const TrainConfig& train = config.train;
  const auto& ramp = train.rampup_batch_size;
  if (ramp && ramp->size() != 3) {
    problems.add(
        "train.rampup_batch_size: {}, expected [start, increment, rows of data over which "
        "the batch grows], for example [8, 8, 10000]",
        counted(std::ssize(*ramp), "number"));
    return;
  }
  if (data_parallel_size(config) == 0) return;  // reported elsewhere
  const BatchSchedule batches = batch_schedule(config);
  const std::vector<std::string> found = batches.problems();
  for (const std::string& problem : found) problems.add_text(problem);
  if (!found.empty() || !train.train_samples) return;
  const int64_t samples = *train.train_samples, steps = batches.steps_within(samples);
  if (steps == 0) {
    problems.add("train.train_samples: {}, less than the {} of the first step",
                 counted(samples, "row"), batches.rows_at(0));
  } else if (outcome.is_given("train.train_iters") && train.train_iters != steps) {
    problems.add(
        "train.train_samples: {} make {}, and train.train_iters = {} is given too: give one of "
        "them",
        counted(samples, "row"), counted(steps, "step"), train.train_iters);
  }
}

}  // namespace viaduct
