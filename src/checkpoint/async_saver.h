#pragma once
// Saving while training goes on: a checkpoint staged in host memory, and a background thread that
// writes it.

#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/logical_values.h"

namespace viaduct {

/// Everything one rank saves, in host memory that nobody changes until it is written.
struct StagedCheckpoint {
  struct Entry {
    CheckpointEntry entry;
    Tensor data;
  };
  std::filesystem::path save;
  int64_t step = 0;
  std::vector<Entry> entries;
  std::string state = "{}";                  // JSON
  std::map<std::string, std::string> files;  // name to content
  int64_t keep_last = 0;                     // old steps to keep; 0 keeps all
};

/// Adds what the runs hold of logical tensors of owned parts, in FP32, under `prefix` + their
/// names. Of runs that several ranks hold copies of, one of them stages them.
void stage_runs(Device& device, const std::vector<StoredRun>& runs, const std::string& prefix,
                StagedCheckpoint& staged);

/// Writes and publishes a checkpoint of one rank. IoError if it cannot; what was saved before is
/// untouched then.
void save_checkpoint(const StagedCheckpoint& checkpoint);

/// Runs save jobs on one background thread, one at a time.
class AsyncSaver {
 public:
  /// With `continue_after_failure` a failed save is a loud warning when it happens and `start` goes
  /// on; without it the next `start` throws.
  explicit AsyncSaver(bool continue_after_failure = false);
  /// Waits for the job in flight. An error nobody asked for is logged as a warning.
  ~AsyncSaver();
  AsyncSaver(const AsyncSaver&) = delete;
  AsyncSaver& operator=(const AsyncSaver&) = delete;

  /// Waits for the job in flight and starts `job`. Throws the error of an earlier job, without
  /// starting this one, unless the saver continues after failures. `what` names the job in
  /// messages ("checkpoint of step 10").
  void start(std::string what, std::function<void()> job);
  /// `start` with save_checkpoint.
  void save(StagedCheckpoint checkpoint);

  /// Waits for the job in flight; throws the error of the last job if it failed. To be called
  /// before the program says that all is saved.
  void join();

  /// True while a job is being written.
  bool busy() const;
  /// Jobs that failed since construction.
  int64_t failures() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace viaduct
