#pragma once
// One run at a time writes into a save folder: the file SAVE/run.lock says which one. The run holds
// it by flock(2), which ends with the process, however it ends; the file stays, as a record of who
// wrote last.
//
// flock alone is not enough where it does not reach (file systems without locks, network file
// systems that give a lock away when a client was gone for long): the file also holds a token of
// its run, and whoever takes the folder next puts its own there. A run looks at it before all that
// it publishes, and stops where it finds another's.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>

namespace viaduct {

class RunLock {
 public:
  /// Takes `save` (made if missing). IoError that names the holder (process, host, since when) if
  /// another run has it; also of another RunLock of this process.
  explicit RunLock(const std::filesystem::path& save);
  /// Lets the folder go.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// To be called before anything is published. IoError that names the other run if one has taken
  /// the folder since. If folder or file are gone, they are made again, and counted.
  void check();
  /// True if the file is not where it was (the folder was deleted, say): `check` will find out
  /// more. One call to the system.
  bool is_gone() const;
  /// How often `check` made folder and file again.
  int64_t times_made_again() const { return times_made_again_; }

  /// The file goes with the lock: of a program that is no run.
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
  mutable std::mutex mutex_;  // a save in the background asks, too
};

}  // namespace viaduct
