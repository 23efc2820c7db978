#pragma once
// The checkpoints of a run while it trains: checkpoint.save and its lock, what a checkpoint holds
// besides the state, and saves, in the foreground and in the background. Every rank has one; all
// make the same calls unless said otherwise.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/async_saver.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/old_steps.h"
#include "checkpoint/run_lock.h"
#include "data/dataset_fingerprint.h"
#include "engine/engine.h"
#include "optim/schedules.h"
#include "report/metrics_log.h"
#include "run/setup.h"
#include "train/train_state.h"

namespace viaduct {

class TrainingData;

/// What is saved.
struct SavedState {
  Engine& engine;
  const TrainState& state;
  const Schedules& schedules;
  bool is_best = false;  // the best evaluation so far
};

class CheckpointKeeper {
 public:
  /// Both outlive it.
  CheckpointKeeper(const RunSetup& setup, Communicator& world);

  /// The checkpoint that the run continues from; null: none. Rank 0 takes its folder before
  /// anything of it is read or changed.
  std::unique_ptr<CheckpointReader> open_resumed();
  /// Rank 0 takes checkpoint.save for this run, unless it has it, and removes what interrupted runs
  /// left there. With `now` false nobody does, and the ranks only meet.
  void take_folder(bool now);
  /// Rank 0 reads what a checkpoint holds besides the state: a tokenizer that is moved away while
  /// the run goes on is no reason to lose the run. ConfigError if the model under the adapters of
  /// `resumed` (null: none) is another one.
  void read_side_files(const TrainingData& data, const CheckpointReader* resumed);
  /// Of the data, on rank 0 of a run that saves or resumes.
  const std::vector<DatasetFingerprint>& fingerprints() const { return fingerprints_; }

  /// The folder that this rank holds; null on all but rank 0 of a run that saves.
  const RunLock* lock() const { return lock_.get(); }
  /// FolderTaken if another run has taken it. A lock that cannot be read is said once. This rank
  /// alone, as the next four.
  void check_lock(MetricsLog& log);
  /// False if another run has taken it: nothing is written there any more.
  bool owns_folder(MetricsLog& log);
  /// The folder, or the lock in it, was deleted since `recreate_folder`.
  bool folder_was_deleted() const;
  /// Nothing is saved there any more.
  void recreate_folder();
  /// Writes the files of the folder that are not part of a checkpoint.
  void write_run_files() const;

  /// Whether the state of this step is saved, or being saved.
  bool has_saved(int64_t step) const { return saved_step_ == step; }
  /// The run continues from a checkpoint of this step.
  void begins_at(int64_t step) { saved_step_ = step; }
  /// Saves a state that is not saved yet, and with `wait` returns when it is complete. A save that
  /// fails is said, and the run goes on without it, with checkpoint.continue_on_save_failure.
  void save(const SavedState& saved, bool wait, MetricsLog& log);
  /// Waits for the save in the background. If it failed, its state counts as not saved.
  void settle_background_save();
  /// Whether the last save was deleted since, on any rank's account; then it counts as not saved.
  bool last_save_is_lost(int64_t step);
  /// The save of a failed run, by the ranks as `ranks` connects them.
  void save_with(Communicator& ranks, const SavedState& saved, MetricsLog& log);

  /// A save in the background goes on: this rank's thread is writing; not all ranks know its end.
  bool writes() const { return saver_.writes(); }
  bool busy() const { return saver_.busy(); }
  /// Advances it; `any_writes` as in AsyncSaver.
  void advance(bool any_writes) { saver_.advance(any_writes); }

  /// ", last checkpoint: …" for the error message of a failed run.
  std::string last_checkpoint() const;

 private:
  bool leads() const { return world_.rank() == 0; }
  std::map<std::string, std::string> files() const;
  /// What this rank saves, with everything that a checkpoint of this run has.
  StagedCheckpoint stage(const SavedState& saved, Staging staging);
  /// Error on all ranks if a weight or a moment of any rank is not finite, so that no such
  /// checkpoint is saved.
  void check_finite(Communicator& ranks, const StagedCheckpoint& staged) const;

  const RunSetup& setup_;
  const RunConfig& config_;
  Communicator& world_;
  std::vector<DatasetFingerprint> fingerprints_;
  std::map<std::string, std::string> side_texts_;  // rank 0: the tokenizer's files, by name
  std::string base_text_;                // rank 0: what the adapters' base is (base_model.h)
  std::shared_ptr<RunLock> lock_;        // of checkpoint.save, held by rank 0
  std::shared_ptr<OldSteps> old_steps_;  // of rank 0; destroyed before the lock
  AsyncSaver saver_;
  int64_t saved_step_ = -1;
  bool saved_ = false;               // this session saved a checkpoint
  bool lock_unread_ = false;         // said that the lock cannot be read
  int64_t handled_recreations_ = 0;  // of RunLock::times_made_again
};

}  // namespace viaduct
