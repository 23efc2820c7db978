#include "checkpoint/run_lock.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/log.h"
#include "checkpoint/save_folder.h"

namespace viaduct {
namespace {

constexpr int kAttempts = 100;

/// The lock file's description of a run.
struct Holder {
  std::string host, boot_id, started, token;
  int64_t pid = 0;
  std::string start_ticks;  // start time since boot: distinguishes processes with a reused id
};

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

/// First line of a file of /proc; "" where there is none.
std::string proc_text(const std::string& path) {
  std::string text;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char buffer[1024];
  const ssize_t bytes = ::read(fd, buffer, sizeof buffer);
  ::close(fd);
  if (bytes > 0) text.assign(buffer, static_cast<size_t>(bytes));
  return text.substr(0, text.find('\n'));
}

std::string boot_id() {
  return proc_text("/proc/sys/kernel/random/boot_id");
}

/// Field 22 of /proc/PID/stat; the name before it may hold spaces and parentheses.
std::string start_ticks(int64_t pid) {
  const std::string stat = proc_text("/proc/" + std::to_string(pid) + "/stat");
  size_t at = stat.rfind(')');
  if (at == std::string::npos) return "";
  for (int field = 2; field < 22; ++field) {
    at = stat.find(' ', at + 1);
    if (at == std::string::npos) return "";
  }
  return stat.substr(at + 1, stat.find(' ', at + 1) - at - 1);
}

std::string read_all(int descriptor) {
  std::string text(4096, '\0');
  const ssize_t bytes = ::pread(descriptor, text.data(), text.size(), 0);
  text.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return text;
}

/// Nothing for a malformed text (truncated by a crash, for example).
std::optional<Holder> parse_holder(const std::string& text) {
  const auto read = try_parse_json<nlohmann::json>(text);
  if (!read || !read->is_object()) return std::nullopt;
  const nlohmann::json& json = *read;
  Holder holder;
  try {
    holder.host = json.at("host").get<std::string>();
    holder.pid = json.at("pid").get<int64_t>();
    holder.start_ticks = json.at("start_ticks").get<std::string>();
    holder.started = json.at("started").get<std::string>();
    holder.boot_id = json.at("boot_id").get<std::string>();
    holder.token = json.at("token").get<std::string>();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  return holder;
}

std::string describe(const std::string& text) {
  const auto holder = parse_holder(text);
  if (!holder) return "an unidentified run";
  return fmt::format("process {} on {}, since {}", holder->pid, holder->host, holder->started);
}

/// Only processes of this machine since its boot can be checked.
bool is_alive(const Holder& holder) {
  return holder.boot_id == boot_id() && !holder.start_ticks.empty() &&
         holder.start_ticks == start_ticks(holder.pid);
}

std::string new_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

bool same_file(int descriptor, const std::filesystem::path& path) {
  struct stat open_one {
  }, named{};
  return ::fstat(descriptor, &open_one) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& save)
    : save_(save), path_(save / kLockFile), token_(new_token()) {
  take();
}

RunLock::~RunLock() {
  if (descriptor_ < 0) return;
  // Remove it while locked, so that the next run's file is not removed.
  if (remove_ && same_file(descriptor_, path_)) ::unlink(path_.c_str());
  ::close(descriptor_);
}

void RunLock::take() {
  create_folder(save_);
  for (int i = 0; i < kAttempts; ++i) {
    const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    VIADUCT_CHECK(IoError, fd >= 0, "{}: cannot be opened: {}", path_.string(),
                  std::strerror(errno));
    descriptor_ = fd;
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int reason = errno;
      const std::string text = read_all(fd);
      const auto holder = parse_holder(text);
      const bool held = reason == EWOULDBLOCK || reason == EINTR;
      if (held || (holder && is_alive(*holder))) {
        ::close(std::exchange(descriptor_, -1));
        fail<FolderTaken>(
            "{}: another run writes here ({}); wait until it ends, stop it, or name another "
            "checkpoint.save",
            save_.string(), describe(text));
      }
      log_warning(
          "{}: this file system has no locks ({}): do not start two runs with this folder; the "
          "older one would notice at its next save",
          path_.string(), std::strerror(reason));
    }
    // The previous holder may have removed the file that we opened.
    if (same_file(fd, path_)) return write_record();
    ::close(std::exchange(descriptor_, -1));
  }
  fail<IoError>("{}: other processes keep replacing this file", path_.string());
}

void RunLock::write_record() {
  const std::time_t now = std::time(nullptr);
  const std::string text =
      nlohmann::ordered_json{{"host", host_name()},
                             {"pid", static_cast<int64_t>(::getpid())},
                             {"start_ticks", start_ticks(::getpid())},
                             {"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now))},
                             {"boot_id", boot_id()},
                             {"token", token_}}
          .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
      "\n";
  const bool written =
      ::ftruncate(descriptor_, 0) == 0 &&
      ::pwrite(descriptor_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
      ::fsync(descriptor_) == 0;
  if (written) return;
  const std::string reason = std::strerror(errno);
  ::close(std::exchange(descriptor_, -1));
  fail<IoError>("{}: cannot be written: {}", path_.string(), reason);
}

bool RunLock::is_gone() const {
  const std::lock_guard guard(mutex_);
  // A file system that does not answer has lost nothing.
  struct stat named {};
  if (::stat(path_.c_str(), &named) != 0) return errno == ENOENT || errno == ENOTDIR;
  return !same_file(descriptor_, path_);
}

void RunLock::check() {
  const std::lock_guard guard(mutex_);
  // Reopened: a network file system shows other machines' writes when a file is opened.
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    VIADUCT_CHECK(IoError, errno == ENOENT, "{}: cannot be opened: {}", path_.string(),
                  std::strerror(errno));
    ::close(std::exchange(descriptor_, -1));
    take();
    log_warning("{}: it was deleted during this run, and is created again", path_.string());
    ++times_made_again_;
    return;
  }
  const std::string text = read_all(fd);
  ::close(fd);
  const auto holder = parse_holder(text);
  VIADUCT_CHECK(FolderTaken, holder && holder->token == token_,
                "{}: another run has taken this folder ({}); this one stops and leaves the folder "
                "as it is",
                save_.string(), describe(text));
}

}  // namespace viaduct
