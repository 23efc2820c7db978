#pragma once
// Saving a checkpoint by all ranks of a run: synchronously, or in the background from copies in
// host memory.

#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/logical_values.h"
#include "comm/communicator.h"

namespace viaduct {

class OldSteps;
class RunLock;

/// Everything one rank saves.
struct StagedCheckpoint {
  struct Entry {
    CheckpointEntry entry;
    /// In host memory that stays unchanged until it is written …
    Tensor data;
    /// … or, if `data` is undefined, read when it is written: a synchronous save then holds one
    /// extra tensor at a time, not all of them.
    std::function<Tensor()> read;

    Tensor values() const { return data.defined() ? data : read(); }
  };
  std::filesystem::path save;
  int64_t step = 0;
  std::vector<Entry> entries;
  // Used on rank 0 only:
  std::string state = "{}";                  // JSON
  std::map<std::string, std::string> files;  // name to content
  int64_t keep_last = 0;                     // old steps to keep; 0 keeps all
  bool is_best = false;                      // the best step so far (SAVE/best)
  std::shared_ptr<RunLock> lock;             // of `save`; null: no other run can write there
  /// Removes old steps in the background; null: removal is part of the save.
  std::shared_ptr<OldSteps> old_steps;
};

/// Whether values are copied when they are staged, or read when they are written.
enum class Staging { copied, read_later };

/// Adds the elements of owned logical tensors in `runs`, in `exact_format`, under `prefix` + their
/// names. If several ranks hold copies of a run, one of them stages it. With Staging::read_later
/// the device and the runs' values must outlive `staged`, and the device must not be used while
/// they are written.
void stage_runs(Device& device, const std::vector<StoredRun>& runs, const std::string& prefix,
                StagedCheckpoint& staged, Staging staging = Staging::copied);

/// Writes and publishes a checkpoint; every rank of `world` calls it with its own values and a
/// folder visible to all. If any rank fails, all throw an IoError with the rank and the reason;
/// earlier checkpoints are untouched.
void save_checkpoint(Communicator& world, const StagedCheckpoint& checkpoint);

/// Saves on background threads, one save at a time. All ranks of `world` construct one and make the
/// same calls. The threads only write; ranks exchange their progress between steps on the calling
/// thread, so a checkpoint is published one or two calls of `advance` after its last shard is
/// written.
class AsyncSaver {
 public:
  /// With `continue_after_failure` a failed save gives a warning and later saves proceed; without
  /// it the next `save` throws.
  explicit AsyncSaver(Communicator& world, bool continue_after_failure = false);
  /// Waits for this rank's writing; during stack unwinding the other ranks are told of the failure
  /// first. A save not yet joined is dropped if there are other ranks, since they may be gone; a
  /// single rank finishes it. An error that was not collected is logged as a warning.
  ~AsyncSaver();
  AsyncSaver(const AsyncSaver&) = delete;
  AsyncSaver& operator=(const AsyncSaver&) = delete;

  /// Finishes the save in flight, so that its copies are freed: call it before those of the next
  /// one are made. Its error is kept for `save`.
  void finish();
  /// Finishes the save in flight, creates the folder, and starts writing. Throws the error of an
  /// earlier save, without starting this one, unless the saver continues after failures.
  void save(StagedCheckpoint checkpoint);
  /// Called between steps: advances the save in flight if all ranks are ready. Does not wait for
  /// files. Does nothing, without communication, if no save is in flight.
  void advance();
  /// The same with the exchange already done: `any_writes` is whether `writes()` was true on any
  /// rank at some time after the save's last advance; it must be equal on all ranks.
  void advance(bool any_writes);
  /// Whether this rank's thread is working on the save in flight.
  bool writes() const;
  /// Finishes the save in flight; throws the error of the last save if it failed. Must be called
  /// before the program reports that everything is saved.
  void join();

  /// After a failure of the run: waits for this rank's writing, and gives the save in flight up
  /// without the other ranks. What was not published yet does not become a checkpoint.
  void give_up() noexcept;

  /// True until all ranks know that the save is published or has failed; equal on all ranks.
  bool busy() const { return phase_ != Phase::idle; }
  /// The error that the next call of `save` or `join` would throw, and then does not; null if none,
  /// or if the saver continues after failures. Equal on all ranks.
  std::exception_ptr take_failure() {
    return continue_after_failure_ ? nullptr : std::exchange(error_, nullptr);
  }
  /// Saves that failed since construction.
  int64_t failures() const { return failures_; }

 private:
  enum class Phase { idle, shards, commit };

  /// Called when all ranks' threads are ready: starts the next phase, or ends the save.
  void next_phase();
  void failed(const std::exception_ptr& error);

  Communicator& world_;
  const bool continue_after_failure_;
  Phase phase_ = Phase::idle;
  StagedCheckpoint staged_;
  std::unique_ptr<CheckpointWriter> writer_;  // rank 0
  std::future<void> work_;
  std::exception_ptr error_;  // of the last save, until it is thrown or a later save succeeds
  int64_t failures_ = 0;
};

}  // namespace viaduct
