#include "standard_streams.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "base/error.h"
#include "base/log.h"

namespace viaduct::cli {
namespace {

constexpr const char* kCannotWrite = "cannot write to standard output";

std::string reason_of(int error) {
  // The substitute that prepare_standard_streams opened for a closed stream is not writable.
  return error == EBADF ? "it is closed" : std::strerror(error);
}

}  // namespace

void prepare_standard_streams() {
  // Opened with the wrong mode: reading an output stream fails, and so does writing an input
  // stream.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // open returns the lowest free number, which is this stream's.
    if (::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) != stream) return;
  }
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

int finish_standard_output(int status) {
  // Before std::cout, whose flush does the same but hides the reason.
  const bool flushed = std::fflush(stdout) == 0;
  const int error = errno;
  std::cout.flush();
  if (flushed && std::ferror(stdout) == 0 && std::cout.good()) return status;
  // The error is permanent, and the code that met it first has reported it.
  if (status != 0) return status;
  log_line(LogLevel::error,
           flushed ? kCannotWrite : fmt::format("{}: {}", kCannotWrite, reason_of(error)));
  return 1;
}

std::string try_print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return reason_of(errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return "";
}

bool standard_error_failed() {
  return std::ferror(stderr) != 0;
}

void print_now(std::string_view text) {
  errno = 0;
  std::fwrite(text.data(), 1, text.size(), stdout);
  const bool good = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  VIADUCT_CHECK(IoError, good, "{}{}", kCannotWrite, errno == 0 ? "" : ": " + reason_of(errno));
}

void say_text(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace viaduct::cli
