#include "base/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

extern char** environ;

namespace viaduct {
namespace {

constexpr size_t kMostOutput = 64 << 10;
constexpr int kPollMilliseconds = 20;

/// Both ends close where an error ends the call.
struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() {
    VIADUCT_CHECK(IoError, ::pipe2(ends, O_CLOEXEC) == 0, "a pipe cannot be made: {}",
                  std::strerror(errno));
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }
  ~Pipe() {
    close_writer();
    ::close(ends[0]);
  }
  void close_writer() {
    if (ends[1] >= 0) ::close(std::exchange(ends[1], -1));
  }
  /// Appends what there is. False at the end of the output.
  bool read(std::string& text) const {
    char part[4096];
    while (true) {
      const ssize_t got = ::read(ends[0], part, sizeof part);
      if (got <= 0) return got != 0;
      const size_t room = kMostOutput - text.size();
      text.append(part, std::min(room, static_cast<size_t>(got)));
    }
  }
};

struct SpawnActions {
  posix_spawn_file_actions_t value;
  SpawnActions() { ::posix_spawn_file_actions_init(&value); }
  ~SpawnActions() { ::posix_spawn_file_actions_destroy(&value); }
};

struct SpawnAttributes {
  posix_spawnattr_t value;
  SpawnAttributes() { ::posix_spawnattr_init(&value); }
  ~SpawnAttributes() { ::posix_spawnattr_destroy(&value); }
};

/// A group of its own, so that it can be killed with its processes, and signals as a shell gives
/// them. Returns the process.
pid_t start(const std::vector<std::string>& arguments, const Pipe& pipe) {
  SpawnActions actions;
  ::posix_spawn_file_actions_addopen(&actions.value, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions.value, pipe.ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions.value, pipe.ends[1], STDERR_FILENO);
  SpawnAttributes attributes;
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes.value, &none);
  ::posix_spawnattr_setsigdefault(&attributes.value, &all);
  ::posix_spawnattr_setpgroup(&attributes.value, 0);
  ::posix_spawnattr_setflags(
      &attributes.value, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> words;
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  pid_t process = 0;
  const int error =
      ::posix_spawnp(&process, words[0], &actions.value, &attributes.value, words.data(), environ);
  VIADUCT_CHECK(IoError, error == 0, "{} cannot be started: {}", arguments.at(0),
                std::strerror(error));
  return process;
}

/// Whether the process has ended; it is then gone from the system's table.
bool ended(pid_t process, int flags, ProgramOutcome& outcome) {
  int status = 0;
  const pid_t found = ::waitpid(process, &status, flags);
  if (found == 0 || (found < 0 && errno == EINTR)) return false;
  if (found > 0)
    outcome.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return true;
}

}  // namespace

ProgramOutcome run_program(const std::vector<std::string>& arguments, double seconds) {
  const double end = steady_seconds() + seconds;
  ProgramOutcome outcome;
  Pipe pipe;
  const pid_t process = start(arguments, pipe);
  pipe.close_writer();
  bool open = true;
  while (!ended(process, WNOHANG, outcome)) {
    if (steady_seconds() > end) {
      outcome.in_time = false;
      ::kill(-process, SIGKILL);
      while (!ended(process, 0, outcome)) continue;
      break;
    }
    // Without an end of the output to wait for, this only waits.
    pollfd ready{open ? pipe.ends[0] : -1, POLLIN, 0};
    ::poll(&ready, 1, kPollMilliseconds);
    if (open) open = pipe.read(outcome.output);
  }
  if (open) pipe.read(outcome.output);
  return outcome;
}

}  // namespace viaduct
