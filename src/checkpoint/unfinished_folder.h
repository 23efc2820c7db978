#pragma once
// A folder that appears whole or not at all, and how the remains of an interrupted one are known.

#include <filesystem>

namespace viaduct {

/// `to`.tmp-PID, which is renamed to `to` when it is complete and removed otherwise. Until then it
/// has the file kUnfinishedMark, which its writer holds by flock. The constructor removes the
/// folders that interrupted programs left beside `to`: those with the mark that nobody holds, of
/// processes that do not exist on this machine. IoError if the name is taken by something else.
class UnfinishedFolder {
 public:
  explicit UnfinishedFolder(const std::filesystem::path& to);
  ~UnfinishedFolder();
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void finish();

 private:
  std::filesystem::path to_, path_;
  int mark_ = -1;
  bool finished_ = false;
};

inline constexpr const char* kUnfinishedMark = ".viaduct-unfinished";

}  // namespace viaduct
