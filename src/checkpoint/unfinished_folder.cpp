#include "checkpoint/unfinished_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/output_file.h"
#include "checkpoint/save_folder.h"

namespace viaduct {
namespace {

/// Whether a folder has the mark and nobody is writing it.
bool is_abandoned(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(std::filesystem::symlink_status(folder, ignored)))
    return false;
  const auto mark = folder / kUnfinishedMark;
  const int descriptor = ::open(mark.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return false;
  const bool free = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  ::close(descriptor);
  return free;
}

void remove_abandoned(const std::filesystem::path& to) {
  std::error_code error;
  const std::string start = to.filename().string() + ".tmp-";
  std::vector<std::filesystem::path> found;
  for (std::filesystem::directory_iterator at(to.parent_path(), error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(start) && dead_process(std::string_view(name).substr(start.size())) &&
        is_abandoned(at->path()))
      found.push_back(at->path());
  }
  for (const auto& folder : found) std::filesystem::remove_all(folder, error);
}

}  // namespace

UnfinishedFolder::UnfinishedFolder(const std::filesystem::path& to)
    : to_(to), path_(to.string() + ".tmp-" + std::to_string(::getpid())) {
  create_folder(to_.parent_path());
  remove_abandoned(to_);
  std::error_code error;
  if (is_abandoned(path_)) std::filesystem::remove_all(path_, error);
  const bool made = std::filesystem::create_directory(path_, error);
  VIADUCT_CHECK(IoError, made, "cannot create folder {}: {}", path_.string(),
                error ? error.message() : "it exists, and viaduct did not make it");
  const auto mark = path_ / kUnfinishedMark;
  mark_ = ::open(mark.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (mark_ < 0) {
    const std::string reason = std::strerror(errno);
    std::filesystem::remove(path_, error);
    fail<IoError>("cannot create {}: {}", mark.string(), reason);
  }
  ::flock(mark_, LOCK_EX | LOCK_NB);  // not all file systems can
}

UnfinishedFolder::~UnfinishedFolder() {
  std::error_code ignored;
  if (!finished_) std::filesystem::remove_all(path_, ignored);
  ::close(mark_);
}

void UnfinishedFolder::finish() {
  std::error_code error;
  std::filesystem::remove(path_ / kUnfinishedMark, error);
  sync_folder(path_);
  std::filesystem::rename(path_, to_, error);
  VIADUCT_CHECK(IoError, !error, "{}: cannot be put in place: {}", to_.string(), error.message());
  finished_ = true;
  sync_folder(to_.parent_path());
}

}  // namespace viaduct
