#pragma once
// Temporary files that a signal takes with it when it ends the process.

#include <csignal>
#include <cstddef>
#include <string>

namespace viaduct {

/// While one exists, SIGINT, SIGTERM and SIGHUP remove every `UnfinishedFile` and then end the
/// process, with the status that they would end it with anyway. A signal that is ignored stays
/// ignored. The previous handlers are restored. At most one at a time; for programs that have
/// nothing else to do at their end.
class RemovesUnfinishedFiles {
 public:
  RemovesUnfinishedFiles();
  ~RemovesUnfinishedFiles();
  RemovesUnfinishedFiles(const RemovesUnfinishedFiles&) = delete;
  RemovesUnfinishedFiles& operator=(const RemovesUnfinishedFiles&) = delete;

 private:
  static constexpr size_t kSignals = 3;
  struct sigaction previous_[kSignals];
};

/// A file that is not complete as long as this exists. Of several hundred at once, and of paths of
/// more than 4095 bytes, the surplus ones are not removed.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(const std::string& path);
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

 private:
  int slot_ = -1;
};

}  // namespace viaduct
