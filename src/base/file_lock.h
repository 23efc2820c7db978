#pragma once
// A lock between the processes of a machine, and between the threads of each process.

#include <filesystem>

namespace viaduct {

/// Holds the file `path` (created if missing, never removed) by flock(2) for its lifetime; the
/// constructor waits until the lock is free. The system releases it when the process ends, in any
/// way. IoError if the file cannot be created or locked.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace viaduct
