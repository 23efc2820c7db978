#include "report/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace viaduct {

// A pipe or a device can only be written; a file can also be read again.
AppendFile::AppendFile(std::filesystem::path path, Mode mode) : path_(std::move(path)) {
  std::error_code ignored;
  const bool other = std::filesystem::is_other(path_, ignored);  // follows links
  const int flags = (other ? O_WRONLY : O_RDWR) | O_CREAT | O_APPEND | O_CLOEXEC |
                    (mode == Mode::exclusive ? O_EXCL : 0);
  descriptor_ = ::open(path_.c_str(), flags, 0644);
  VIADUCT_CHECK(IoError, descriptor_ >= 0, "{}: cannot open for appending: {}", path_.string(),
                std::strerror(errno));
}

AppendFile::~AppendFile() {
  ::close(descriptor_);
}

void AppendFile::append(std::string_view bytes) {
  if (const Place found = place(); found != Place::here) open_again(found);
  write_all(bytes);
}

void AppendFile::sync() {
  const bool synced = ::fdatasync(descriptor_) == 0 || errno == EINVAL || errno == EROFS;
  VIADUCT_CHECK(IoError, synced, "{}: cannot flush: {}", path_.string(), std::strerror(errno));
}

AppendFile::Place AppendFile::place() const {
  struct stat held {
  }, named{};
  if (::fstat(descriptor_, &held) != 0 || !S_ISREG(held.st_mode)) return Place::here;
  if (::stat(path_.c_str(), &named) != 0)
    return errno == ENOENT ? Place::deleted : Place::here;  // writing will report the error
  const bool same = held.st_dev == named.st_dev && held.st_ino == named.st_ino;
  return same ? Place::here : Place::replaced;
}

void AppendFile::open_again(Place found) {
  log_warning("{}: it was {} during this run; {}", path_.string(),
              found == Place::deleted ? "deleted" : "replaced",
              found == Place::deleted ? "it is recreated" : "writing continues in the new file");
  std::error_code ignored;  // opening reports the error
  std::filesystem::create_directories(path_.parent_path(), ignored);
  const int flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC;
  const int fresh = ::open(path_.c_str(), flags, 0644);
  VIADUCT_CHECK(IoError, fresh >= 0, "{}: cannot be opened again: {}", path_.string(),
                std::strerror(errno));
  if (found == Place::replaced) {
    ::close(std::exchange(descriptor_, fresh));
    return;
  }
  // A deleted file exists as long as it is open.
  const int deleted = std::exchange(descriptor_, fresh);
  char buffer[1 << 16];
  off_t at = 0;
  ssize_t bytes = 0;
  while ((bytes = ::pread(deleted, buffer, sizeof buffer, at)) > 0) {
    write_all({buffer, static_cast<size_t>(bytes)});
    at += bytes;
  }
  ::close(deleted);
}

void AppendFile::write_all(std::string_view bytes) {
  struct stat before {};
  const bool known = ::fstat(descriptor_, &before) == 0 && S_ISREG(before.st_mode);
  bool begun = false;
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int reason = errno;
      // A partial record would corrupt the next one.
      const bool whole = !begun || (known && ::ftruncate(descriptor_, before.st_size) == 0);
      fail<IoError>("{}: cannot append: {}{}", path_.string(), std::strerror(reason),
                    whole ? "" : " (and the partial record cannot be removed)");
    }
    begun = true;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace viaduct
