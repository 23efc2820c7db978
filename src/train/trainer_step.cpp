// A step of the training loop, and the steps that are passed over or skipped.

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "device/recording.h"
#include "engine/replica_check.h"
#include "engine/sample_batch.h"
#include "probe/nan_report.h"
#include "train/trainer.h"

namespace viaduct {

bool Trainer::step() {
  StepWork work{.begin = steady_seconds()};
  work.rows = batches_.rows_at(state_.consumed_samples);
  StepRecord* record = profiler_->begin_step(state_.step + 1);
  std::optional<Recording> recording;
  const bool op_timers =
      config_.logger.timing_log_level > 1 && reporter_->is_logged(state_.step + 1);
  if (record == nullptr && (world_->size() > 1 || op_timers))
    recording.emplace(device_, *(record = &record_));
  if (record != nullptr) {
    record->reset_counters();
    work.record = record;
  }
  std::optional<RecordScope> scope;
  scope.emplace(record, ScopeKind::step, fmt::format("step {}", state_.step + 1));
  const bool fp16 = run_.layers.precision.loss_scaling;
  StepInputs inputs = scheduled_inputs(schedules_, state_.schedule_samples);
  inputs.update = state_.updates + 1;
  inputs.loss_scale = state_.scaler.scale;
  engine_->reset_phases();
  engine_->inspect(reporter_->inspected(state_.step + 1));
  const OffloadCounts moved_before = moved();
  engine_->begin_step(inputs);

  double scored = 0, data_seconds = 0;
  HostBatch batch;  // the last one, for a report on values that are not finite
  const auto timed = [&](auto&& read) {
    const double begin = steady_seconds();
    HostBatch rows = read();
    data_seconds += steady_seconds() - begin;
    return rows;
  };
  const auto count_rows = [&](HostBatch rows) {
    batch = std::move(rows);
    scored += batch.scored_weight();
    work.tokens += batch.tokens();
    std::ranges::copy(batch.document_tokens(), std::back_inserter(work.document_lengths));
    work.images += batch.images.count;
  };
  // The figures of this step are sent as soon as they are known, before its last micro-batch runs.
  const auto post = [&] {
    engine_->post_scored(scored, work.tokens, reporter_->figures(work, keeper_->writes()),
                         !failure_);
  };
  if (documents_) {
    const auto row = [&](int64_t number) {
      return timed([&] {
        return read_or_blank(1, [&] { return data_->row(state_.consumed_samples, number); });
      });
    };
    documents_->share(work.rows, data_->place(), row, count_rows);
    const int64_t micro_batches = documents_->count();
    if (micro_batches == 0) post();
    engine_->run_micro_batches(micro_batches, [&](int64_t i) {
      HostBatch documents = documents_->batch(i, row);
      if (i + 1 == micro_batches) post();
      return documents;
    });
  } else {
    const int64_t micro_batches = data_->micro_batches(work.rows);
    engine_->run_micro_batches(micro_batches, [&](int64_t i) {
      count_rows(timed([&] {
        return read_or_blank(config_.train.micro_batch_rows(),
                             [&] { return data_->train(state_.consumed_samples, i); });
      }));
      if (i + 1 == micro_batches) post();
      return batch;
    });
  }
  const StepResult result = finish_step(scored);
  offload_.done += moved() - moved_before;
  reporter_->take(engine_->merged_figures());
  if (result.abandoned) {
    may_save_ = true;
    return false;
  }
  const bool not_finite = result.skipped && !result.nothing_scored;
  // FP16 gradients overflow in normal runs, which the scaler handles; their loss does not.
  if (!std::isfinite(result.loss) || (not_finite && !fp16)) after_nan(result, batch);
  // A step without a gradient says nothing about the scale.
  if (fp16 && !result.nothing_scored) state_.scaler = scaler_.next(state_.scaler, not_finite);

  scope.reset();
  recording.reset();
  offload_.step_seconds += steady_seconds() - work.begin;

  state_.step += 1;
  state_.consumed_samples += work.rows;
  state_.consumed_tokens += reporter_->tokens();
  state_.skipped += result.skipped;
  if (not_finite && !fp16) {
    count_skipped();
  } else if (!result.nothing_scored) {
    state_.skipped_in_a_row = 0;
  }
  if (!result.skipped) state_.updates += 1;
  // The rows of a step without a scored token are used up, as those of an update are.
  if (!not_finite) state_.schedule_samples += work.rows;
  may_save_ = true;
  if (result.nothing_scored) note_nothing_scored();

  StepMetrics metrics;
  if (!result.nothing_scored) {
    metrics.loss = result.loss;
    metrics.mtp_losses = result.depth_losses;
    metrics.grad_norm = result.grad_norm;
  }
  metrics.learning_rate = inputs.learning_rate;
  metrics.data_seconds = data_seconds;
  metrics.skipped = result.skipped;
  metrics.nothing_scored = result.nothing_scored;
  if (fp16) metrics.loss_scale = inputs.loss_scale;
  reporter_->complete(metrics, work, state_);
  log_step(metrics);
  reporter_->note_profiles([&] { return profiler_->end_step(state_.step); });
  return true;
}

StepResult Trainer::finish_step(double scored) {
  may_save_ = false;
  try {
    return engine_->finish_step(scored);
  } catch (const std::exception&) {
    may_save_ = !engine_->began_update();
    throw;
  }
}

HostBatch Trainer::read_or_blank(int64_t rows, FunctionRef<HostBatch()> read) {
  // Ranks that share nothing within a step would hear of it at its end.
  if (const std::string cause = world_->failure(); !cause.empty()) throw CommError(cause);
  try {
    if (!failure_) return read();
  } catch (const std::exception&) {
    failure_ = std::current_exception();
  }
  return blank_rows(rows, config_.model.seq_length.value(), setup_.model.encoder.row_length);
}

void Trainer::skip_step() {
  const int64_t rows = batches_.rows_at(state_.consumed_samples);
  state_.step += 1;
  state_.skipped += 1;
  state_.consumed_samples += rows;
  state_.consumed_tokens += rows * config_.model.seq_length.value();
  log_->note(fmt::format("step {} is skipped (train.iterations_to_skip)", state_.step));
  StepMetrics metrics;
  metrics.step_samples = rows;
  metrics.learning_rate = schedules_.learning_rate.rate(state_.schedule_samples);
  metrics.skipped = 1;
  reporter_->complete_skipped(metrics, state_, keeper_->writes());
  log_step(metrics);
}

void Trainer::log_step(const StepMetrics& metrics) {
  // A run that lost its folder to another one must not write into its files either.
  const bool ours =
      !reporter_->is_logged(state_.step) || on_this_rank([&] { keeper_->check_lock(*log_); });
  if (ours) on_this_rank([&] { log_->step(metrics); });
}

void Trainer::check_replicas() {
  const std::string found = differing_replica(*engine_);
  if (found.empty()) return;
  may_save_ = false;
  fail<Error>("step {}: {}{}", state_.step, found, keeper_->last_checkpoint());
}

void Trainer::after_nan(const StepResult& result, const HostBatch& batch) {
  // After a step the weights are no longer those of the loss, so a search would find nothing.
  if (!result.skipped) {
    fail<Error>(
        "step {}: loss {}, gradient norm {}; the update is made: gradients are not tested "
        "(ddp.check_for_nan_in_grad=true names the first tensor that is not finite){}",
        state_.step + 1, result.loss, result.grad_norm, keeper_->last_checkpoint());
  }
  const std::string first = first_nonfinite(*engine_, batch);
  const std::string what = fmt::format(
      "step {}: loss {}, gradient norm {}; first tensor that is not finite: {}", state_.step + 1,
      result.loss, result.grad_norm, first.empty() ? "none in the last micro-batch" : first);
  if (config_.train.nan_loss_action != NanAction::skip)
    throw Error(what + " (train.nan_loss_action=skip continues without such updates)" +
                keeper_->last_checkpoint());
  log_->note("warning: " + what + "; update skipped");
}

void Trainer::note_nothing_scored() {
  const int64_t count = ++state_.nothing_scored;
  // Data with many such steps would fill the log.
  if (!std::has_single_bit(static_cast<uint64_t>(count))) return;
  log_->note(fmt::format(
      "warning: step {}: no token of its global batch is scored, so nothing is updated; {} so far",
      state_.step, counted(count, "step of this kind", "steps of this kind")));
}

void Trainer::count_skipped() {
  const TrainConfig& train = config_.train;
  constexpr int64_t kWindow = 100;
  ++state_.skipped_in_a_row;
  skipped_steps_.push_back(state_.step);
  while (skipped_steps_.front() <= state_.step - kWindow) skipped_steps_.pop_front();
  const auto& limit = train.max_skipped_in_a_row;
  if (limit && state_.skipped_in_a_row > *limit) {
    fail<Error>(
        "step {}: {} skipped for values that are not finite, more than "
        "train.max_skipped_in_a_row={}{}",
        state_.step,
        counted(state_.skipped_in_a_row, "update in a row was", "updates in a row were"), *limit,
        keeper_->last_checkpoint());
  }
  const auto skipped = static_cast<double>(skipped_steps_.size());
  if (skipped > train.max_skipped_rate * static_cast<double>(kWindow)) {
    fail<Error>(
        "step {}: {} of the last {} updates {} skipped for values that are not finite, more than "
        "train.max_skipped_rate={}{}",
        state_.step, skipped_steps_.size(), kWindow, skipped_steps_.size() == 1 ? "was" : "were",
        train.max_skipped_rate, keeper_->last_checkpoint());
  }
}

}  // namespace viaduct
