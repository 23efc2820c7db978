#pragma once
// A lock between the processes of a machine, and between the threads of each.

#include <filesystem>

namespace viaduct {

/// Holds the file `path` (made if missing, and left there) by flock(2) for its lifetime, after
/// waiting for whoever holds it. The system frees it with the process, however that ends. IoError
/// if the file cannot be made or locked.
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
