#include "train/checkpoint_keeper.h"

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
#include "run/adapter_setup.h"
#include "run/base_model.h"
#include "train/check_resume.h"
#include "train/resume_schedules.h"
#include "train/run_checkpoint.h"
#include "train/stored_config.h"
#include "train/training_data.h"

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

}  // namespace

CheckpointKeeper::CheckpointKeeper(const RunSetup& setup, Communicator& world)
    : setup_(setup),
      config_(setup.config),
      world_(world),
      saver_(world, config_.checkpoint.continue_on_save_failure) {}

void CheckpointKeeper::take_folder(bool now) {
  run_on_all(
      world_,
      [&] {
        const auto& save = config_.checkpoint.save;
        if (!now || !leads() || !save || lock_) return;
        lock_ = std::make_shared<RunLock>(*save);
        old_steps_ = std::make_shared<OldSteps>();
        remove_leftovers(*save);
      },
      "removing the leftovers of an interrupted run");
}

std::unique_ptr<CheckpointReader> CheckpointKeeper::open_resumed() {
  const CheckpointConfig& c = config_.checkpoint;
  const auto& load = c.load.value();
  // `load` defaults to `save`: a run that finds its own checkpoints resumes from the latest. Steps
  // without `latest` count as checkpoints too: opening them reports the error. Rank 0 chooses; all
  // ranks read its choice.
  const bool resumes = leads() && load && (c.ckpt_step || has_checkpoints(*load));
  // A run that begins takes its folder later, when nothing can refuse it any more.
  take_folder(resumes);
  std::filesystem::path folder;
  if (resumes && (c.ckpt_step || has_checkpoints(*load))) {
    folder = c.ckpt_step ? std::filesystem::path(*load) / step_folder_name(*c.ckpt_step)
                         : std::filesystem::path(*load);
  }
  return open_on_all(world_, folder, {c.fallback_to_previous});
}

void CheckpointKeeper::read_side_files(const TrainingData& data, const CheckpointReader* resumed) {
  const CheckpointConfig& c = config_.checkpoint;
  // Only one rank reads whole indices and builds orders of the data, however long that takes.
  run_on_all(
      world_,
      [&] {
        if (leads() && (c.load.value() || c.save)) fingerprints_ = data.fingerprints();
        if (leads() && c.save && !setup_.tokenizer_folder.empty())
          side_texts_ = model_side_texts(setup_.tokenizer_folder);
      },
      "reading the indices of the data");
  if (resumed == nullptr && !(c.save && config_.peft.any())) return;
  run_on_all(
      world_,
      [&] {
        if (!leads()) return;
        if (config_.peft.any()) base_text_ = base_text(base_of(setup_));
        if (resumed != nullptr) check_base(*resumed, setup_, base_text_);
      },
      "reading the model under the adapters");
}

std::map<std::string, std::string> CheckpointKeeper::files() const {
  std::map<std::string, std::string> files{{"config.json", setup_.hf_config},
                                           {"config.yaml", stored_config_text(to_yaml(config_))},
                                           {kDataFile, to_json(fingerprints_)}};
  files.insert(side_texts_.begin(), side_texts_.end());
  if (config_.peft.any()) {
    files[kAdapterConfigFile] = adapter_config_of(setup_);
    files[kBaseFile] = base_text_;
  }
  return files;
}

StagedCheckpoint CheckpointKeeper::stage(const SavedState& saved, Staging staging) {
  const CheckpointConfig& c = config_.checkpoint;
  TrainState state = saved.state;
  if (!c.save_rng) state.seed.reset();
  StagedCheckpoint staged = stage_run(
      saved.engine, state,
      {.optimizer = c.save_optim, .spread_copies = c.fully_parallel_save, .staging = staging});
  staged.state = with_schedules(staged.state, saved.schedules);
  staged.files = files();
  staged.save = *c.save;
  staged.keep_last = c.most_recent_k;
  staged.is_best = saved.is_best;
  staged.lock = lock_;
  staged.old_steps = old_steps_;
  return staged;
}

void CheckpointKeeper::check_finite(Communicator& ranks, const StagedCheckpoint& staged) const {
  if (const auto found = ranks.host().first_text(first_not_finite(staged)))
    fail<Error>("step {}: {}; it is not saved{}", staged.step, found->text, last_checkpoint());
}

void CheckpointKeeper::save(const SavedState& saved, bool wait, MetricsLog& log) {
  const CheckpointConfig& c = config_.checkpoint;
  const int64_t step = saved.state.step;
  if (!has_saved(step)) {
    if (c.async_save) saver_.finish();  // one copy of the state at a time
    // After a save that failed the run ends. This one is its last, and not made in the background.
    const std::exception_ptr before = saver_.take_failure();
    const bool later = c.async_save && !before;
    StagedCheckpoint staged = stage(saved, later ? Staging::copied : Staging::read_later);
    check_finite(world_, staged);
    if (leads()) log.sync();
    const std::string what = fmt::format("checkpoint of step {}", step);
    const double bytes = world_.host().sum(static_cast<double>(bytes_of(staged)));
    const double begin = steady_seconds();
    if (later) {
      saver_.save(std::move(staged));
    } else {
      try {
        save_checkpoint(world_, staged);
      } catch (const IoError& error) {
        // The last save is the only result of the run.
        if (wait || before || !c.continue_on_save_failure) throw;
        log.note(fmt::format("warning: {} failed, continuing without it: {}", what, error.what()));
        return;
      }
    }
    saved_step_ = step;
    saved_ = true;
    log.note(fmt::format(
        "{} {} to {}{}", later ? "saving" : "saved", what, *c.save,
        later ? "" : transfer_text(static_cast<int64_t>(bytes), steady_seconds() - begin)));
    if (before) std::rethrow_exception(before);
  }
  if (wait && c.async_save) saver_.join();
}

void CheckpointKeeper::settle_background_save() {
  saver_.finish();
  if (saver_.take_failure()) saved_step_ = -1;
}

bool CheckpointKeeper::last_save_is_lost(int64_t step) {
  bool lost = folder_was_deleted();
  if (lock_ && saved_) {
    try {
      lost = lost || latest_step(lock_->folder()) != step;
    } catch (const IoError&) {
      lost = true;
    }
  }
  if (world_.host().most(lost ? 1 : 0) == 0) return false;
  if (leads())
    log_warning("{}: the checkpoint of step {} was deleted, and is saved again",
                *config_.checkpoint.save, step);
  recreate_folder();
  return true;
}

void CheckpointKeeper::save_with(Communicator& ranks, const SavedState& saved, MetricsLog& log) {
  run_on_all(
      ranks, [&] { saver_.give_up(); }, "ending a save in the background");
  // Staging uses the device, which belongs to this thread.
  StagedCheckpoint staged;
  std::exception_ptr mine;
  try {
    staged = stage(saved, Staging::read_later);
  } catch (const std::exception&) {
    mine = std::current_exception();
  }
  run_on_all(
      ranks,
      [&] {
        if (mine) std::rethrow_exception(mine);
      },
      "staging the last checkpoint");
  check_finite(ranks, staged);
  if (leads()) log.sync();
  save_checkpoint(ranks, staged);
  saved_step_ = saved.state.step;
  saved_ = true;
  log.note(fmt::format("saved checkpoint of step {} to {}", saved_step_, *config_.checkpoint.save));
}

std::string CheckpointKeeper::last_checkpoint() const {
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

void CheckpointKeeper::check_lock(MetricsLog& log) {
  if (!lock_) return;
  try {
    lock_->check();
  } catch (const FolderTaken&) {
    throw;
  } catch (const IoError& error) {
    // A file system that does not answer. Whoever publishes anything checks again.
    if (std::exchange(lock_unread_, true)) return;
    log.note(fmt::format("warning: {}; the run continues", error.what()));
  }
}

bool CheckpointKeeper::owns_folder(MetricsLog& log) {
  try {
    check_lock(log);
    return true;
  } catch (const FolderTaken&) {
    return false;
  }
}

bool CheckpointKeeper::folder_was_deleted() const {
  return lock_ && (lock_->is_gone() || lock_->times_made_again() != handled_recreations_);
}

void CheckpointKeeper::recreate_folder() {
  saved_step_ = -1;  // it was saved before but no longer exists
  if (!lock_) return;
  lock_->check();
  handled_recreations_ = lock_->times_made_again();
  write_run_files();
}

void CheckpointKeeper::write_run_files() const {
  if (!lock_) return;
  write_file_atomically(lock_->folder() / "config.yaml", to_yaml(config_));
}

}  // namespace viaduct
