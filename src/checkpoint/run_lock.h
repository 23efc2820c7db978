#pragma once
// One run at a time writes into a save folder: the file SAVE/run.lock names it. The run holds the
// file by flock(2), which is released when the process ends for any reason; the file remains as a
// record of the last writer.
//
// flock alone is not enough on file systems without locks, or on network file systems that release
// the lock of a client after a long disconnection. The file therefore also holds a token of its
// run, which the next run replaces by its own. A run checks the token before it publishes anything,
// and stops if it is another run's.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>

#include "base/error.h"

namespace viaduct {

inline constexpr const char* kLockFile = "run.lock";

/// Another run writes into the folder.
class FolderTaken : public IoError {
 public:
  using IoError::IoError;
};

class RunLock {
 public:
  /// Locks `save` (created if missing). FolderTaken with the holder (process, host, start time) if
  /// another run, or another RunLock of this process, has it.
  explicit RunLock(const std::filesystem::path& save);
  /// Releases the folder.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// Must be called before anything is published. FolderTaken that names the other run if one has
  /// taken the folder meanwhile; IoError if that cannot be read. If folder or file are gone, they
  /// are created again and counted.
  void check();
  /// True if the file has been moved or deleted; `check` then finds out more. Costs one system
  /// call.
  bool is_gone() const;
  /// How often `check` recreated folder and file.
  int64_t times_made_again() const { return times_made_again_; }

  /// Removes the file with the lock, for programs that are not a run.
  void remove_when_released() { remove_ = true; }

  const std::filesystem::path& folder() const { return save_; }

 private:
  void take();
  void write_record();

  std::filesystem::path save_, path_;
  std::string token_;
  int descriptor_ = -1;
  bool remove_ = false;
  std::atomic<int64_t> times_made_again_ = 0;
  mutable std::mutex mutex_;  // a background save checks it too
};

}  // namespace viaduct
