#include "train/trainer.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/physical_memory.h"
#include "checkpoint/on_all_ranks.h"
#include "engine/evaluation.h"
#include "report/session_log.h"
#include "run/check_conversations.h"
#include "run/cuda_backend.h"
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
  keeper_ = std::make_unique<CheckpointKeeper>(setup, *world_);
  const GlobalRank rank{world_->rank()};
  if (device.memory().system_allocations == 0) {
    planned_ = plan_memory(setup, rank);
    check_memory(setup, planned_, world_->host(), hooks_.ranks_here.value_or(world_->size()),
                 physical_memory_bytes());
    device.use_plan(planned_.plan);
    // Before the first operation with other ranks: a GPU that loads code may wait for it.
    if (world_->size() > 1 && !planned_.library_calls.empty())
      cuda_backend().prepare(device, planned_.library_calls);
  }
  profiler_ = std::make_unique<StepProfiler>(config_, device, rank);
  auto checkpoint = keeper_->open_resumed();
  DataStart start;
  if (checkpoint) {
    const TrainState stored = train_state_from_json(checkpoint->state(), checkpoint->where());
    start = {stored.step, stored.consumed_samples};
  }
  data_ =
      std::make_unique<TrainingData>(setup, device.pool(), run_.parallelism.size(Axis::dp),
                                     run_.parallelism.mesh.coordinate(rank, Axis::dp).value, start);
  evaluations_ =
      std::make_unique<RunEvaluations>(RunEvaluations::Run{setup, run_, *world_, *data_});
  engine_ = std::make_unique<Engine>(device, ops, setup.model, run_, make_groups(run_, world_),
                                     open_second_memory());
  if (config_.context_parallel.hybrid_context_parallel)
    documents_ = std::make_unique<DocumentBatches>(setup, engine_->groups());
  state_.seed = run_.layers.seed;
  state_.scaler.scale = 1;
  if (run_.layers.precision.loss_scaling) state_.scaler = scaler_.initial_state();
  keeper_->take_folder(true);
  const bool rescaled = load_weights(std::move(checkpoint));
  evaluations_->settle_best(state_, keeper_->lock());
  state_.data_rows = data_->rows_read();
  began_at_ = state_.step;
  const auto& samples = config_.train.train_samples;
  total_steps_ = samples ? state_.step + batches_.steps_within(*samples, state_.consumed_samples)
                         : config_.train.train_iters;
  note_end_of_schedule();
  log_ = std::make_unique<MetricsLog>(
      log_options(config_, hooks_, state_.step, total_steps_, leads()));
  reporter_ = std::make_unique<StepReporter>(
      StepReporter::Run{setup, run_, device, *engine_, *world_, *log_}, total_steps_,
      hooks_.peak_effort);
  evaluations_->take_before(evaluation_place(), rescaled);
  // A run that is complete leaves the folder unchanged.
  if (state_.step == 0 || state_.step < total_steps_) {
    keeper_->write_run_files();
    if (const RunLock* lock = keeper_->lock()) add_session(lock->folder(), {state_.step, changed_});
  }
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
  if (reason.empty() && !over && evaluations_->ends_early(state_, *log_)) reason = "early";
  std::exception_ptr failure;
  while (reason.empty() && !train.skip_train && state_.step < total_steps_) {
    const auto& skipped = train.iterations_to_skip;
    if (std::find(skipped.begin(), skipped.end(), state_.step + 1) != skipped.end()) {
      skip_step();
    } else {
      if (state_.step == began_at_ + 1) meet_other_gpus();
      if (!step()) {
        failure = common_failure();
        break;
      }
    }
    const auto& interval = train.check_weight_hash_across_dp_replicas_interval;
    if (interval && state_.step % *interval == 0) check_replicas();
    update_requests();
    const StepRequests& asked = reporter_->requests();
    keeper_->advance(asked.writes);
    const bool done = state_.step >= total_steps_;
    // The step of an evaluation that a signal ended is the last one: the next session evaluates it.
    const bool evaluated = done || !evaluation_due() || evaluate();
    if (failure_of_all_) {  // of the evaluation
      failure = failure_;
      break;
    }
    if (asked.stop || !evaluated) {
      reason = "signal";
    } else if (!done) {
      reason = exit_reason();
      if (reason.empty() && evaluations_->ends_early(state_, *log_)) reason = "early";
    }
    const bool due = checkpoint.save_interval > 0 && state_.step % checkpoint.save_interval == 0;
    if (asked.folder_deleted) on_this_rank([&] { keeper_->recreate_folder(); });
    const bool wanted = due || asked.folder_deleted || is_best_step();
    if (checkpoint.save && wanted && !done && reason.empty()) save(false);
  }
  if (failure) end_with(failure);
  if (reason.empty()) {
    if (evaluate() && !stop_requested()) evaluate(true);
    if (stop_requested()) reason = "signal";
  }
  reporter_->note_profiles([&] { return profiler_->finish(); });
  if ((failure = common_failure())) end_with(failure);
  if (checkpoint.save && !train.skip_train) {
    save(true);
    finish_last_save();
  }
  if (!reason.empty()) log_->stopped(state_.step, reason);
}

void Trainer::meet_other_gpus() {
  if (device_.kind() == DeviceKind::cuda && world_->size() > 1) world_->host().most(0);
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
      keeper_->settle_background_save();
      save(true);
      finish_last_save();
    }
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& second) {
    log_->note(fmt::format("warning: its state cannot be saved: {}", second.what()));
  }
  if (keeper_->owns_folder(*log_)) log_->stopped(state_.step, "error");
  ended_ = true;
  std::rethrow_exception(failure);
}

void Trainer::update_requests() {
  StepRequests mine;
  on_this_rank([&] { mine.stop = hooks_.stop_requested && hooks_.stop_requested(); });
  mine.folder_deleted = keeper_->folder_was_deleted();
  mine.writes = keeper_->writes();
  mine.run_seconds = steady_seconds() - run_begin_;
  reporter_->request(mine);
}

RunEvaluations::Place Trainer::evaluation_place() {
  return {*engine_, state_, *log_, [this] { return stop_requested(); },
          [this] { return keeper_->owns_folder(*log_); }};
}

bool Trainer::evaluate(bool test) {
  try {
    if (!test) return evaluations_->evaluate(evaluation_place());
    evaluations_->test(evaluation_place());
    return true;
  } catch (const UnreadRows&) {
    if (!made_steps()) throw;
    failure_ = std::current_exception();
    failure_of_all_ = true;
    return false;
  }
}

void Trainer::save(bool wait) {
  may_save_ = false;
  const bool saved_before = keeper_->has_saved(state_.step);
  keeper_->save(saved_state(), wait, *log_);
  if (saved_before && is_best_step()) evaluations_->settle_best(state_, keeper_->lock());
  may_save_ = true;
}

void Trainer::finish_last_save() {
  if (keeper_->last_save_is_lost(state_.step)) save(true);
}

std::string Trainer::exit_reason() const {
  const TrainConfig& t = config_.train;
  if (t.exit_interval && state_.step % *t.exit_interval == 0)
    return fmt::format("train.exit_interval={}", *t.exit_interval);
  if (t.exit_duration_in_mins && reporter_->requests().run_seconds > *t.exit_duration_in_mins * 60)
    return fmt::format("train.exit_duration_in_mins={}", *t.exit_duration_in_mins);
  return "";
}

}  // namespace viaduct
