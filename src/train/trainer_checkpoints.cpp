// Checkpoints in the training loop: initial load, resumption and saving.

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "checkpoint/on_all_ranks.h"
#include "checkpoint/open_checkpoint.h"
#include "checkpoint/parameter_io.h"
#include "checkpoint/save_folder.h"
#include "model/initialize.h"
#include "model/initialize_magnitudes.h"
#include "run/adapter_setup.h"
#include "run/grown_vocabulary.h"
#include "train/base_model.h"
#include "train/check_resume.h"
#include "train/resume_schedules.h"
#include "train/run_checkpoint.h"
#include "train/trainer.h"

namespace viaduct {
namespace {

bool has_checkpoints(const std::filesystem::path& save) {
  return has_latest(save) || (std::filesystem::is_directory(save) && !saved_steps(save).empty());
}

int64_t bytes_of(const StagedCheckpoint& staged) {
  int64_t bytes = 0;
  for (const auto& entry : staged.entries)
    bytes += entry.entry.piece.elements() * dtype_bytes(entry.entry.tensor.dtype);
  return bytes;
}

/// " (9.51 GiB in 31.2 s, 312 MiB/s)".
std::string rate_text(double bytes, double seconds) {
  return fmt::format(" ({} in {}, {}/s)", format_bytes(static_cast<int64_t>(bytes)),
                     format_seconds(seconds),
                     format_bytes(static_cast<int64_t>(bytes / std::max(seconds, 1e-9))));
}

}  // namespace

void Trainer::take_folder(bool now) {
  run_on_all(
      *world_,
      [&] {
        const auto& save = config_.checkpoint.save;
        if (!now || !leads() || !save || lock_) return;
        lock_ = std::make_shared<RunLock>(*save);
        old_steps_ = std::make_shared<OldSteps>();
        remove_leftovers(*save);
      },
      "removing the leftovers of an interrupted run");
}

std::unique_ptr<CheckpointReader> Trainer::open_resumed() {
  const CheckpointConfig& c = config_.checkpoint;
  const auto& load = c.load.value();
  // `load` defaults to `save`: a run that finds its own checkpoints resumes from the latest. Steps
  // without `latest` count as checkpoints too: opening them reports the error. Rank 0 chooses; all
  // ranks read its choice.
  const bool resumes = leads() && load && (c.ckpt_step || has_checkpoints(*load));
  // Before anything of the folder is read or changed. A run that begins takes it later, when
  // nothing can refuse it any more.
  take_folder(resumes);
  std::filesystem::path folder;
  if (resumes && (c.ckpt_step || has_checkpoints(*load))) {
    folder = c.ckpt_step ? std::filesystem::path(*load) / step_folder_name(*c.ckpt_step)
                         : std::filesystem::path(*load);
  }
  return open_on_all(*world_, folder, {c.fallback_to_previous});
}

void Trainer::load_weights(std::unique_ptr<CheckpointReader> checkpoint) {
  const CheckpointConfig& c = config_.checkpoint;
  const auto& load = c.load.value();
  // Only one rank reads whole indices and builds orders of the data, however long that takes. What
  // a save stores besides the run's own state is read here: a tokenizer that is moved away while
  // the run goes on is no reason to lose the run.
  run_on_all(
      *world_,
      [&] {
        if (leads() && (load || c.save)) fingerprints_ = data_->fingerprints();
        if (leads() && c.save && !setup_.tokenizer_folder.empty())
          side_texts_ = model_side_texts(setup_.tokenizer_folder);
      },
      "reading the indices of the data");
  if (checkpoint || (c.save && config_.peft.any())) {
    run_on_all(
        *world_,
        [&] {
          if (!leads()) return;
          if (config_.peft.any()) base_text_ = base_text(base_of(setup_));
          if (checkpoint) check_base(*checkpoint, setup_, base_text_);
        },
        "reading the model under the adapters");
  }
  if (!checkpoint) check_adapter_base_on_all(*world_, setup_);
  if (config_.peft.any()) begin_adapters(checkpoint != nullptr);
  const double begin = steady_seconds();
  if (checkpoint) {
    compare_with(*checkpoint);
    const RestoredRun restored = restore_run(*engine_, *checkpoint,
                                             {.optimizer = c.load_optim,
                                              .strictness = strictness_of(c.dist_ckpt_strictness),
                                              .spread_copies = c.fully_parallel_load});
    if (leads()) {
      for (const std::string& warning : restored.warnings)
        log_warning("{}: {}", checkpoint->where(), warning);
    }
    const double bytes = world_->host().sum(static_cast<double>(restored.bytes));
    check_seed(restored.state, checkpoint->where());
    resume_state(restored.state);
    if (c.load_optim) {
      schedules_ =
          resume_schedules(schedules_, stored_schedules(checkpoint->state(), checkpoint->where()),
                           config_.scheduler, checkpoint->where());
    }
    if (leads())
      log_info("resuming from {} at step {}{}", checkpoint->where(), state_.step,
               rate_text(bytes, steady_seconds() - begin));
    saved_step_ = state_.step;
    return;
  }
  VIADUCT_CHECK(ConfigError, !load || !c.exit_on_missing_checkpoint,
                "checkpoint.load: no checkpoint in {}", load.value_or(""));
  if (leads() && load && load != c.save)
    log_warning("checkpoint.load: no checkpoint in {}; starting from scratch", *load);
  if (config_.peft.any()) return;
  if (setup_.pretrained) {
    OpContext context = engine_->context(false, false).ops;
    const auto weights = open_pretrained(setup_);
    load_parameters(context, engine_->store(), *weights, setup_.model);
    if (leads()) log_info("fine-tuning from {}", setup_.pretrained->path.string());
  } else {
    engine_->initialize();
  }
}

void Trainer::begin_adapters(bool resumes) {
  RankContext rank = engine_->context(false, false);
  OpContext context = rank.ops;
  if (setup_.pretrained) {
    load_parameters(context, engine_->store(), *open_pretrained(setup_), setup_.model);
  } else {
    engine_->initialize();
  }
  const auto& adapter = config_.peft.adapter;
  if (resumes) return;  // they come from the checkpoint
  if (adapter) {
    const PeftAdapter begun = open_adapter(*adapter, setup_.model);
    load_adapter(context, engine_->store(), *begun.tensors);
  } else {
    initialize_parameters(context, engine_->store(), run_.layers.seed, is_adapter);
    initialize_magnitudes(rank, engine_->store());
  }
  if (!leads()) return;
  log_info("adapters of {} on {}{}", counted(std::ssize(run_.layers.adapters.modules), "layer"),
           setup_.pretrained ? setup_.pretrained->path.string() : "random weights",
           adapter ? ", from " + *adapter : "");
}

std::vector<TensorKind> Trainer::optimizer_states() const {
  std::vector<TensorKind> kinds;
  if (!config_.checkpoint.load_optim || engine_->optimizer() == nullptr) return kinds;
  for (const OptimizerState& state : engine_->optimizer()->states())
    kinds.push_back({state.prefix, state.has, state.shape});
  return kinds;
}

void Trainer::compare_with(const CheckpointReader& checkpoint) {
  const auto same_order = [&](int64_t samples, int64_t global_batch_size) {
    return data_->same_order(samples, global_batch_size);
  };
  run_on_all(
      *world_,
      [&] {
        if (leads())
          changed_ = check_resume(setup_, fingerprints_, checkpoint, same_order, data_->rows_read(),
                                  optimizer_states());
      },
      "comparing the run with its checkpoint");
  const bool other_scale = std::ranges::any_of(changed_, [](const std::string& change) {
    return change.starts_with("peft.alpha") || change.starts_with("peft.rslora");
  });
  rescaled_ = world_->host().text_of_rank_0(other_scale ? "yes" : "") == "yes";
}

void Trainer::check_seed(const TrainState& stored, const std::string& where) const {
  if (!config_.checkpoint.load_rng) return;
  VIADUCT_CHECK(ConfigError, stored.seed,
                "{}: was saved with checkpoint.save_rng=false and has no state of random numbers; "
                "checkpoint.load_rng=false continues with rng.seed={}",
                where, *state_.seed);
  VIADUCT_CHECK(ConfigError, stored.seed == state_.seed,
                "{}: the run began with rng.seed={}; resuming with {} would not continue it "
                "(checkpoint.load_rng=false allows it)",
                where, *stored.seed, *state_.seed);
}

void Trainer::resume_state(const TrainState& stored) {
  const TrainState fresh = state_;
  state_ = stored;
  state_.seed = fresh.seed;
  if (!config_.checkpoint.load_optim) state_.updates = 0;  // zero moments: new bias corrections
  const bool scaling = run_.layers.precision.loss_scaling;
  const bool stored_scaling = stored.scaler != LossScalerState{};
  if (!scaling || !stored_scaling || !config_.checkpoint.load_optim) {
    state_.scaler = fresh.scaler;
  } else {
    scaler_.check(state_.scaler);
  }
}

std::map<std::string, std::string> Trainer::checkpoint_files() const {
  std::map<std::string, std::string> files{{"config.json", setup_.hf_config},
                                           {"config.yaml", to_yaml(config_)},
                                           {kDataFile, to_json(fingerprints_)}};
  files.insert(side_texts_.begin(), side_texts_.end());
  if (config_.peft.any()) {
    files[kAdapterConfigFile] = adapter_config_of(setup_);
    files[kBaseFile] = base_text_;
  }
  return files;
}

void Trainer::save(bool wait) {
  const CheckpointConfig& c = config_.checkpoint;
  may_save_ = false;
  const bool saved_before = saved_step_ == state_.step;
  if (!saved_before) {
    if (c.async_save) saver_->finish();  // one copy of the state at a time
    // After a save that failed the run ends. This one is its last, and not made in the background.
    const std::exception_ptr before = saver_->take_failure();
    const bool later = c.async_save && !before;
    StagedCheckpoint staged = stage(later ? Staging::copied : Staging::read_later);
    check_finite(*world_, staged);
    if (leads()) log_->sync();
    const std::string what = fmt::format("checkpoint of step {}", state_.step);
    const double bytes = world_->host().sum(static_cast<double>(bytes_of(staged)));
    const double begin = steady_seconds();
    if (later) {
      saver_->save(std::move(staged));
    } else {
      try {
        save_checkpoint(*world_, staged);
      } catch (const IoError& error) {
        // The last save is the only result of the run.
        if (wait || before || !c.continue_on_save_failure) throw;
        log_->note(
            fmt::format("warning: {} failed, continuing without it: {}", what, error.what()));
        may_save_ = true;
        return;
      }
    }
    saved_step_ = state_.step;
    saved_ = true;
    log_->note(fmt::format("{} {} to {}{}", later ? "saving" : "saved", what, *c.save,
                           later ? "" : rate_text(bytes, steady_seconds() - begin)));
    if (before) std::rethrow_exception(before);
  }
  if (wait && c.async_save) saver_->join();
  if (saved_before && is_best_step()) settle_best();
  may_save_ = true;
}

StagedCheckpoint Trainer::stage(Staging staging) {
  const CheckpointConfig& c = config_.checkpoint;
  TrainState state = state_;
  if (!c.save_rng) state.seed.reset();
  StagedCheckpoint staged = stage_run(
      *engine_, state,
      {.optimizer = c.save_optim, .spread_copies = c.fully_parallel_save, .staging = staging});
  staged.state = with_schedules(staged.state, schedules_);
  staged.files = checkpoint_files();
  staged.save = *c.save;
  staged.keep_last = c.most_recent_k;
  staged.is_best = is_best_step();
  staged.lock = lock_;
  staged.old_steps = old_steps_;
  return staged;
}

void Trainer::check_finite(Communicator& ranks, const StagedCheckpoint& staged) {
  if (const auto found = ranks.host().first_text(first_not_finite(staged)))
    fail<Error>("step {}: {}; it is not saved{}", state_.step, found->text, last_checkpoint());
}

std::string Trainer::last_checkpoint() const {
  const auto& save = config_.checkpoint.save;
  if (!save) return "";
  try {
    const int64_t step = latest_step(*save);
    return fmt::format("; last good checkpoint: {}",
                       (std::filesystem::path(*save) / step_folder_name(step)).string());
  } catch (const IoError&) {
    return "; there is no checkpoint of this run yet";
  }
}

void Trainer::check_lock() {
  if (!lock_) return;
  try {
    lock_->check();
  } catch (const FolderTaken&) {
    throw;
  } catch (const IoError& error) {
    // A file system that does not answer. Whoever publishes anything checks again.
    if (std::exchange(lock_unread_, true)) return;
    log_->note(fmt::format("warning: {}; the run continues", error.what()));
  }
}

bool Trainer::owns_folder() {
  try {
    check_lock();
    return true;
  } catch (const FolderTaken&) {
    return false;
  }
}

bool Trainer::folder_was_deleted() const {
  return lock_ && (lock_->is_gone() || lock_->times_made_again() != handled_recreations_);
}

void Trainer::recreate_folder() {
  saved_step_ = -1;  // it was saved before but no longer exists
  if (!lock_) return;
  lock_->check();
  handled_recreations_ = lock_->times_made_again();
  write_run_files();
}

void Trainer::finish_last_save() {
  bool lost = folder_was_deleted();
  if (lock_ && saved_) {
    try {
      lost = lost || latest_step(lock_->folder()) != state_.step;
    } catch (const IoError&) {
      lost = true;
    }
  }
  if (world_->host().most(lost ? 1 : 0) == 0) return;
  if (leads())
    log_warning("{}: the checkpoint of step {} was deleted, and is saved again",
                *config_.checkpoint.save, state_.step);
  recreate_folder();
  save(true);
}

}  // namespace viaduct
