#include "train/trainer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/physical_memory.h"
#include "base/units.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/on_all_ranks.h"
#include "checkpoint/save_folder.h"
#include "data/tokenizer/llama_pipeline.h"
#include "data/tokenizer/qwen2_pipeline.h"
#include "device/recording.h"
#include "engine/replica_check.h"
#include "engine/sample_batch.h"
#include "hardware/cpu/peak.h"
#include "probe/nan_report.h"
#include "report/session_log.h"
#include "run/check_conversations.h"
#include "run/rank_device.h"
#include "run/run_length.h"
#include "run/same_settings.h"
#include "train/check_memory.h"

namespace viaduct {
namespace {

/// Writers of the rank that reports; all others have none.
MetricsLogOptions log_options(const RunConfig& c, const TrainerHooks& hooks, int64_t steps_done,
                              int64_t total_steps, bool leads) {
  MetricsLogOptions o;
  if (!leads) return o;
  o.folder = c.checkpoint.save.value_or("");
  o.tensorboard_folder = c.logger.tensorboard_dir.value().value_or("");
  o.display = hooks.display;
  o.display_is_terminal = hooks.display_is_terminal;
  o.steps_done = steps_done;
  o.total_steps = total_steps;
  o.log_interval = c.logger.log_interval;
  return o;
}

}  // namespace

Trainer::Trainer(const RunSetup& setup, Device& device, const OpTable& ops, TrainerHooks hooks,
                 std::shared_ptr<Communicator> world)
    : setup_(setup),
      config_(setup.config),
      device_(device),
      world_(world ? std::move(world) : make_self_communicator("world")),
      run_(resolve_run(setup.config, setup.model)),
      hooks_(std::move(hooks)),
      batches_(batch_schedule(config_)),
      schedules_(
          schedules(config_.optimizer, config_.scheduler, config_.train.train_iters, batches_)),
      scaler_(loss_scaler_settings(config_.mixed_precision)) {
  world_->record_on(&device_);
  check_same_settings(world_->host(), config_);
  record_.keep_counters_alone();
  // Before memory is reserved.
  for (const std::string& warning : check_conversations(setup)) {
    if (leads()) log_warning("{}", warning);
  }
  saver_ = std::make_unique<AsyncSaver>(*world_, config_.checkpoint.continue_on_save_failure);
  const GlobalRank rank{world_->rank()};
  if (device.memory().system_allocations == 0) {
    planned_ = plan_memory(setup, rank);
    check_memory(setup, planned_, world_->host(), hooks_.ranks_here.value_or(world_->size()),
                 physical_memory_bytes());
    device.use_plan(planned_.plan);
  }
  profiler_ = std::make_unique<StepProfiler>(config_, device, rank);
  auto checkpoint = open_resumed();
  DataStart start;
  if (checkpoint) {
    const TrainState stored = train_state_from_json(checkpoint->state(), checkpoint->where());
    start = {stored.step, stored.consumed_samples};
  }
  data_ =
      std::make_unique<TrainingData>(setup, device.pool(), run_.parallelism.size(Axis::dp),
                                     run_.parallelism.mesh.coordinate(rank, Axis::dp).value, start);
  open_validation_files();
  engine_ = std::make_unique<Engine>(device, ops, setup.model, run_, make_groups(run_, world_),
                                     open_second_memory());
  if (config_.context_parallel.hybrid_context_parallel)
    documents_ = std::make_unique<DocumentBatches>(setup, engine_->groups());
  state_.seed = run_.layers.seed;
  state_.scaler.scale = 1;
  if (run_.layers.precision.loss_scaling) state_.scaler = scaler_.initial_state();
  take_folder(true);
  load_weights(std::move(checkpoint));
  settle_best();
  state_.data_rows = data_->rows_read();
  began_at_ = state_.step;
  const auto& samples = config_.train.train_samples;
  total_steps_ = samples ? state_.step + batches_.steps_within(*samples, state_.consumed_samples)
                         : config_.train.train_iters;
  note_end_of_schedule();
  if (measures_peak()) {
    peak_ = measure_matmul_peak(device.pool(), run_.layers.precision.activation,
                                cpu_isa_of(config_.dist), hooks_.peak_effort);
    peak_measured_at_ = steady_seconds();
  }
  log_ = std::make_unique<MetricsLog>(
      log_options(config_, hooks_, state_.step, total_steps_, leads()));
  take_evaluations_before();
  // A run that is complete leaves the folder unchanged.
  if (state_.step == 0 || state_.step < total_steps_) {
    write_run_files();
    if (lock_) add_session(lock_->folder(), {state_.step, changed_});
  }
}

void Trainer::write_run_files() const {
  if (!lock_) return;
  write_file_atomically(lock_->folder() / "config.yaml", to_yaml(config_));
}

bool Trainer::stop_requested() {
  bool mine = false;
  on_this_rank([&] { mine = hooks_.stop_requested && hooks_.stop_requested(); });
  return world_->host().most(mine ? 1 : 0) > 0;
}

void Trainer::run() {
  try {
    run_to_the_end();
  } catch (const std::exception& error) {
    // The other ranks leave their step; nothing of this one waits before they are told.
    world_->fail_all(error.what());
    save_before_failing(error);
    throw;
  }
}

void Trainer::run_to_the_end() {
  run_begin_ = steady_seconds();
  const TrainConfig& train = config_.train;
  const CheckpointConfig& checkpoint = config_.checkpoint;
  const bool over = state_.step >= total_steps_;
  if (over && !train.skip_train) {
    log_->note(fmt::format(
        "nothing to do: the checkpoint of step {} is the end of this run ({}; a larger value goes "
        "on)",
        state_.step,
        train.train_samples ? fmt::format("train.train_samples={}", *train.train_samples)
                            : fmt::format("train.train_iters={}", train.train_iters)));
  }
  if (!over && !train.skip_train) note_data();
  // A resumed run evaluates at the same steps as one that was not stopped.
  const auto evaluation_due = [&] { return state_.step % config_.validation.eval_interval == 0; };
  const bool was_best = is_best_step();
  if (train.skip_train || over || evaluation_due()) evaluate();
  // Of a resumed run, which was saved before it was evaluated.
  if (is_best_step() && !was_best) save(false);
  std::string reason = stop_requested() ? "signal" : "";
  if (reason.empty() && !over && ends_early()) reason = "early";
  std::exception_ptr failure;
  while (reason.empty() && !train.skip_train && state_.step < total_steps_) {
    const auto& skipped = train.iterations_to_skip;
    if (std::find(skipped.begin(), skipped.end(), state_.step + 1) != skipped.end()) {
      skip_step();
    } else {
      if (!step()) {
        failure = common_failure();
        break;
      }
    }
    const auto& interval = train.check_weight_hash_across_dp_replicas_interval;
    if (interval && state_.step % *interval == 0) check_replicas();
    update_requests();
    saver_->advance(merged_.any_writes);
    const bool done = state_.step >= total_steps_;
    // The step of an evaluation that a signal ended is the last one: the next session evaluates it.
    const bool evaluated = done || !evaluation_due() || evaluate();
    if (failure_of_all_) {  // of the evaluation
      failure = failure_;
      break;
    }
    if (merged_.stop || !evaluated) {
      reason = "signal";
    } else if (!done) {
      reason = exit_reason();
      if (reason.empty() && ends_early()) reason = "early";
    }
    const bool due = checkpoint.save_interval > 0 && state_.step % checkpoint.save_interval == 0;
    if (merged_.folder_deleted) on_this_rank([&] { recreate_folder(); });
    const bool wanted = due || merged_.folder_deleted || is_best_step();
    if (checkpoint.save && wanted && !done && reason.empty()) save(false);
  }
  if (failure) end_with(failure);
  if (reason.empty()) {
    if (evaluate() && !stop_requested()) test();
    if (stop_requested()) reason = "signal";
  }
  note_profiles([&] { return profiler_->finish(); });
  if ((failure = common_failure())) end_with(failure);
  if (checkpoint.save && !train.skip_train) {
    save(true);
    finish_last_save();
  }
  if (!reason.empty()) log_->stopped(state_.step, reason);
}

bool Trainer::on_this_rank(FunctionRef<void()> work) {
  try {
    work();
    return true;
  } catch (const std::exception&) {
    if (!failure_) failure_ = std::current_exception();
    return false;
  }
}

std::exception_ptr Trainer::common_failure() {
  if (failure_of_all_) return failure_;
  const auto mine = [&] {
    if (failure_) std::rethrow_exception(failure_);
  };
  return try_on_all(*world_, mine, "ending the run");
}

void Trainer::end_with(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    log_->note(fmt::format("the run cannot go on after step {}: {}", state_.step, error.what()));
  }
  try {
    if (config_.checkpoint.save && made_steps() && !config_.train.skip_train) {
      // One that failed in the background is of no interest any more.
      saver_->finish();
      if (saver_->take_failure()) saved_step_ = -1;
      save(true);
      finish_last_save();
    }
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& second) {
    log_->note(fmt::format("warning: its state cannot be saved: {}", second.what()));
  }
  if (owns_folder()) log_->stopped(state_.step, "error");
  ended_ = true;
  std::rethrow_exception(failure);
}

void Trainer::note_data() {
  const std::vector<DataUse> uses = data_->use();
  const int64_t row_tokens = config_.model.seq_length.value();
  if (const std::string text = data_use_text(uses, row_tokens); !text.empty()) log_->note(text);
  if (const std::string text = data_use_warning(uses, row_tokens); !text.empty())
    log_->note("warning: " + text);
  if (!leads()) return;
  for (const std::string& text : data_->conversation_texts()) log_->note(text);
  if (setup_.tokenizer) {
    const bool colours = hooks_.display_colours;
    const std::string text = data_->row_text(state_.consumed_samples, *setup_.tokenizer, colours);
    if (!text.empty()) {
      log_->note(fmt::format("the first row, what is scored in {}: {}",
                             colours ? "green" : "brackets", text));
    }
  }
  for (const std::string& text : data_->separator_warnings()) log_->note("warning: " + text);
  if (!setup_.tokenizer_folder.empty()) {
    for (const std::string& text : data_->template_warnings(setup_.tokenizer_folder))
      log_->note("warning: " + text);
    const TokenizerFiles files = open_tokenizer_files(setup_.tokenizer_folder);
    for (const std::string& text :
         {setup_.model.family == "qwen2" ? qwen2_pipeline_warning(files) : std::string(),
          llama_pipeline_warning(files)})
      if (!text.empty()) log_->note("warning: " + text);
  }
}

void Trainer::note_end_of_schedule() const {
  const LearningRateSchedule& rate = schedules_.learning_rate;
  if (!leads() || state_.step == 0 || state_.step >= total_steps_ || config_.train.skip_train ||
      rate.style == DecayStyle::constant)
    return;
  const int64_t left = batches_.samples_after(total_steps_ - state_.step, state_.consumed_samples) -
                       state_.consumed_samples;
  const int64_t end = state_.schedule_samples + left;
  const double last = rate.rate(end);
  if (last - rate.minimum_rate <= 0.01 * (rate.maximum_rate - rate.minimum_rate)) return;
  log_warning(
      "the run ends at a learning rate of {:.4g}, not at optimizer.min_lr = {:.4g}: its decay "
      "takes {}, and the run ends after {} (scheduler.lr_decay_iters, scheduler.lr_decay_samples)",
      last, rate.minimum_rate, counted(static_cast<int64_t>(rate.decay_samples), "row"), end);
}

bool Trainer::step() {
  StepWork work{.begin = steady_seconds()};
  work.rows = batches_.rows_at(state_.consumed_samples);
  StepRecord* record = profiler_->begin_step(state_.step + 1);
  std::optional<Recording> recording;
  const bool op_timers = config_.logger.timing_log_level > 1 && is_logged(state_.step + 1);
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
  engine_->inspect(inspects(state_.step + 1) ? &quantization_ : nullptr);
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
  };
  // The figures of this step are sent as soon as they are known, before its last micro-batch runs.
  const auto post = [&] { engine_->post_scored(scored, work.tokens, figures(work), !failure_); };
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
        return read_or_blank(config_.train.micro_batch_size,
                             [&] { return data_->train(state_.consumed_samples, i); });
      }));
      if (i + 1 == micro_batches) post();
      return batch;
    });
  }
  const StepResult result = finish_step(scored);
  offload_.done += moved() - moved_before;
  take_merged(engine_->merged_figures());
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
  log_step(std::move(metrics), work);
  note_profiles([&] { return profiler_->end_step(state_.step); });
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
  return blank_rows(rows, config_.model.seq_length.value());
}

void Trainer::skip_step() {
  const int64_t rows = batches_.rows_at(state_.consumed_samples);
  state_.step += 1;
  state_.skipped += 1;
  state_.consumed_samples += rows;
  state_.consumed_tokens += rows * config_.model.seq_length.value();
  const bool ours = !is_logged(state_.step) || on_this_rank([&] { check_lock(); });
  log_->note(fmt::format("step {} is skipped (train.iterations_to_skip)", state_.step));
  StepMetrics metrics;
  metrics.step = state_.step;
  metrics.samples = state_.consumed_samples;
  metrics.tokens = state_.consumed_tokens;
  metrics.step_samples = rows;
  metrics.learning_rate = schedules_.learning_rate.rate(state_.schedule_samples);
  metrics.skipped = 1;
  metrics.with_rates = config_.logger.log_throughput;
  metrics.flop_convention = kFlopConvention;
  take_merged(world_->host().post(figures({})).wait());
  metrics.ranks = merged_.ranks;
  metrics.peak_memory_bytes = peak_memory_bytes_;
  local_ = {};
  if (ours) log_->step(metrics);
}

void Trainer::check_replicas() {
  const std::string found = differing_replica(*engine_);
  if (found.empty()) return;
  may_save_ = false;
  fail<Error>("step {}: {}{}", state_.step, found, last_checkpoint());
}

void Trainer::after_nan(const StepResult& result, const HostBatch& batch) {
  // After a step the weights are no longer those of the loss, so a search would find nothing.
  if (!result.skipped) {
    fail<Error>(
        "step {}: loss {}, gradient norm {}; the update is made: gradients are not tested "
        "(ddp.check_for_nan_in_grad=true names the first tensor that is not finite){}",
        state_.step + 1, result.loss, result.grad_norm, last_checkpoint());
  }
  const std::string first = first_nonfinite(*engine_, batch);
  const std::string what = fmt::format(
      "step {}: loss {}, gradient norm {}; first tensor that is not finite: {}", state_.step + 1,
      result.loss, result.grad_norm, first.empty() ? "none in the last micro-batch" : first);
  if (config_.train.nan_loss_action != "skip")
    throw Error(what + " (train.nan_loss_action=skip continues without such updates)" +
                last_checkpoint());
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
        last_checkpoint());
  }
  const auto skipped = static_cast<double>(skipped_steps_.size());
  if (skipped > train.max_skipped_rate * static_cast<double>(kWindow)) {
    fail<Error>(
        "step {}: {} of the last {} updates {} skipped for values that are not finite, more than "
        "train.max_skipped_rate={}{}",
        state_.step, skipped_steps_.size(), kWindow, skipped_steps_.size() == 1 ? "was" : "were",
        train.max_skipped_rate, last_checkpoint());
  }
}

std::string Trainer::exit_reason() const {
  const TrainConfig& t = config_.train;
  if (t.exit_interval && state_.step % *t.exit_interval == 0)
    return fmt::format("train.exit_interval={}", *t.exit_interval);
  if (t.exit_duration_in_mins && merged_.run_seconds > *t.exit_duration_in_mins * 60)
    return fmt::format("train.exit_duration_in_mins={}", *t.exit_duration_in_mins);
  return "";
}

}  // namespace viaduct
