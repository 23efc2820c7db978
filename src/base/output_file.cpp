#include "base/output_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"

namespace viaduct {
namespace {

constexpr int kLongestChainOfLinks = 40;  // as in the kernel
constexpr int kLargestPid = 1 << 22;      // as in the kernel
constexpr std::string_view kUnfinished = ".tmp-";

[[noreturn]] void fail_io(const char* operation, const std::filesystem::path& path) {
  fail<IoError>("cannot {} {}: {}", operation, path.string(), std::strerror(errno));
}

/// The open descriptor that a name refers to: `-`, /dev/stdout, /dev/fd/N ….
std::optional<int> named_descriptor(const std::string& path) {
  if (path == "-" || path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    int number = -1;
    const char* end = path.data() + path.size();
    const auto [at, error] = std::from_chars(path.data() + folder.size(), end, number);
    if (error == std::errc() && at == end && number >= 0) return number;
  }
  return std::nullopt;
}

const char* kind_of(mode_t mode) {
  return S_ISDIR(mode) ? "a folder" : S_ISSOCK(mode) ? "a socket" : "not a regular file";
}

/// `path` with the links at its end followed; the last name need not exist.
std::filesystem::path without_links(const std::filesystem::path& path) {
  std::filesystem::path at = path;
  for (int i = 0; i < kLongestChainOfLinks; ++i) {
    struct stat info {};
    if (::lstat(at.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return at;
    std::error_code error;
    const auto next = std::filesystem::read_symlink(at, error);
    VIADUCT_CHECK(IoError, !error, "cannot follow the link {}: {}", at.string(), error.message());
    at = next.is_absolute() ? next : at.parent_path() / next;
  }
  errno = ELOOP;
  fail_io("follow the link", path);
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)) {
  if (const auto descriptor = named_descriptor(path_.string())) {
    descriptor_ = ::fcntl(*descriptor, F_DUPFD_CLOEXEC, 0);
    if (descriptor_ < 0) fail_io("write to", path_);
    return;
  }
  struct stat info {};
  const bool exists = ::stat(path_.c_str(), &info) == 0;
  if (!exists && errno != ENOENT) fail_io("create", path_);
  if (!exists || S_ISREG(info.st_mode)) {
    open_beside(without_links(path_));
  } else {
    VIADUCT_CHECK(IoError, S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode) || S_ISFIFO(info.st_mode),
                  "cannot write {}: it is {}", path_.string(), kind_of(info.st_mode));
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (descriptor_ < 0) fail_io("open for writing", path_);
  }
}

void OutputFile::open_beside(const std::filesystem::path& target) {
  temporary_ = target.string() + std::string(kUnfinished) + std::to_string(::getpid());
  // A file left by a dead process with our PID is in the way. O_EXCL: links placed there are not
  // followed.
  ::unlink(temporary_.c_str());
  unfinished_.emplace(temporary_.string());
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  descriptor_ = ::open(temporary_.c_str(), flags, 0644);
  if (descriptor_ < 0) fail_io("create", temporary_);
  ::flock(descriptor_,
          LOCK_EX | LOCK_NB);  // says that it is being written; not all file systems can
  target_ = target;
  struct stat mine {
  }, old{};
  if (::stat(target.c_str(), &old) != 0) return;
  // Compare with the owner of a file that we create: on network file systems that is not always our
  // own user ID.
  const bool ours = ::fstat(descriptor_, &mine) == 0 && mine.st_uid == old.st_uid;
  if (ours && ::fchmod(descriptor_, old.st_mode & 07777) == 0) return;
  ::close(std::exchange(descriptor_, -1));
  ::unlink(temporary_.c_str());
  fail<IoError>(
      "cannot replace {}: it belongs to user {}, but this program writes files of user {}; remove "
      "it or name another file",
      path_.string(), old.st_uid, mine.st_uid);
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!target_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::write(const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, next, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_io("write", path_);
    next += written;
    bytes -= static_cast<size_t>(written);
  }
}

void OutputFile::commit() {
  const bool file = !target_.empty();
  // Pipes and most devices have nothing to flush.
  const bool flushed = ::fsync(descriptor_) == 0;
  if (!flushed && (file || (errno != EINVAL && errno != ENOTSUP && errno != EROFS)))
    fail_io("flush", path_);
  if (file && ::rename(temporary_.c_str(), target_.c_str()) != 0) fail_io("rename to", path_);
  unfinished_.reset();
  const bool closed = ::close(std::exchange(descriptor_, -1)) == 0;
  if (!closed && errno != EINTR) fail_io("close", path_);
  if (file) sync_folder(folder_of(target_));
}

std::optional<int> dead_process(std::string_view digits) {
  int pid = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), pid);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  if (pid <= 0 || pid > kLargestPid || std::to_string(pid) != digits) return std::nullopt;
  if (::kill(pid, 0) == 0 || errno != ESRCH) return std::nullopt;
  return pid;
}

void remove_unfinished(const std::filesystem::path& target) {
  std::error_code error;
  const std::filesystem::path file = without_links(target);
  const std::string start = file.filename().string() + std::string(kUnfinished);
  for (std::filesystem::directory_iterator at(folder_of(file), error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(start) || !dead_process(std::string_view(name).substr(start.size())))
      continue;
    const int descriptor =
        ::open(at->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) continue;
    struct stat info {};
    const bool left = ::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) &&
                      (::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK);
    if (left) ::unlink(at->path().c_str());
    ::close(descriptor);
  }
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
}

void sync_folder(const std::filesystem::path& folder) {
  const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) fail_io("open folder", folder);
  const bool flushed = ::fsync(directory) == 0 || errno == EINVAL;
  const int reason = errno;
  ::close(directory);
  errno = reason;
  if (!flushed) fail_io("flush folder", folder);
}

}  // namespace viaduct
