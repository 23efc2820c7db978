#pragma once
// Saving a checkpoint by all ranks of a run: at once, or while training goes on from copies in host
// memory.

#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
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
    /// In host memory that nobody changes until it is written …
    Tensor data;
    /// … or, where `data` is not defined, read when it is written: so a save that training waits
    /// for holds one tensor more than the run, not all of them.
    std::function<Tensor()> read;

    Tensor values() const { return data.defined() ? data : read(); }
  };
  std::filesystem::path save;
  int64_t step = 0;
  std::vector<Entry> entries;
  // Of rank 0; what other ranks say is not read:
  std::string state = "{}";                  // JSON
  std::map<std::string, std::string> files;  // name to content
  int64_t keep_last = 0;                     // old steps to keep; 0 keeps all
  std::shared_ptr<RunLock> lock;             // of `save`; null: nobody else is there
  /// Removes old steps in the background; null: the save ends when they are gone.
  std::shared_ptr<OldSteps> old_steps;
};

/// Whether values are copied when they are staged, or read when they are written.
enum class Staging { copied, read_later };

/// Adds what the runs hold of logical tensors of owned parts, in FP32, under `prefix` + their
/// names. Of runs that several ranks hold copies of, one of them stages them. With
/// Staging::read_later the device and the runs' values outlive `staged`, and nobody else uses the
/// device while they are written.
void stage_runs(Device& device, const std::vector<StoredRun>& runs, const std::string& prefix,
                StagedCheckpoint& staged, Staging staging = Staging::copied);

/// Writes and publishes a checkpoint; every rank of `world` calls it with what it holds, and a
/// folder that all of them see. If any rank cannot, all throw the IoError that says which and why;
/// what was saved before is untouched then.
void save_checkpoint(Communicator& world, const StagedCheckpoint& checkpoint);

/// Saves on background threads, one save at a time. All ranks of `world` construct one and call it
/// alike. Threads only write: ranks tell each other how far they are between steps, on the thread
/// that calls, so a checkpoint whose shards are all written is published one or two calls of
/// `advance` later.
class AsyncSaver {
 public:
  /// With `continue_after_failure` a failed save is a loud warning when it is known and `save` goes
  /// on; without it the next `save` throws.
  explicit AsyncSaver(Communicator& world, bool continue_after_failure = false);
  /// Waits for this rank's writing; where it ends by an exception, the other ranks learn first that
  /// this one has failed. With other ranks a save that was not joined is dropped, since
  /// they may be gone; alone it is finished. An error nobody asked for is logged as a warning.
  ~AsyncSaver();
  AsyncSaver(const AsyncSaver&) = delete;
  AsyncSaver& operator=(const AsyncSaver&) = delete;

  /// Finishes the save in flight, creates the folder, and starts writing. Throws the error of an
  /// earlier save, without starting this one, unless the saver continues after failures.
  void save(StagedCheckpoint checkpoint);
  /// To be called between steps: takes the save in flight further if all ranks are ready for it.
  /// Waits for no file. Nothing, without communication, if no save is in flight.
  void advance();
  /// The same where ranks have told each other already: `any_writes` is whether `writes()` was true
  /// on any rank, asked since the save began or went on; equal on all ranks.
  void advance(bool any_writes);
  /// This rank's thread is at work for the save in flight.
  bool writes() const;
  /// Finishes the save in flight; throws the error of the last save if it failed. To be called
  /// before the program says that all is saved.
  void join();

  /// True until a save is published or has failed, as far as all ranks know; the same on all.
  bool busy() const { return phase_ != Phase::idle; }
  /// Saves that failed since construction.
  int64_t failures() const { return failures_; }

 private:
  enum class Phase { idle, shards, commit };

  /// All ranks' threads are ready: the next phase begins, or the save is over.
  void next_phase();
  void finish();
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
