#include "terminal_lines.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace viaduct::cli {

bool TerminalLines::take_line() {
  const size_t end = read_.find('\n');
  if (end == std::string::npos && !(ended_ && !read_.empty())) return false;
  line_ = read_.substr(0, end);
  read_.erase(0, end == std::string::npos ? end : end + 1);
  if (line_.ends_with('\r')) line_.pop_back();
  return true;
}

TerminalLines::Event TerminalLines::next() {
  while (true) {
    if (interrupts_.any()) {
      interrupts_.clear();
      read_.clear();  // as the terminal drops the line that was being typed
      return Event::interrupt;
    }
    if (take_line()) return Event::line;
    if (ended_) return Event::end;
    struct pollfd asked[2] = {{STDIN_FILENO, POLLIN, 0}, {interrupts_.descriptor(), POLLIN, 0}};
    const int ready = poll(asked, 2, -1);
    VIADUCT_CHECK(IoError, ready > 0 || errno == EINTR, "standard input: {}", std::strerror(errno));
    if (ready <= 0 || asked[0].revents == 0) continue;
    char bytes[4096];
    const ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
    VIADUCT_CHECK(IoError, count >= 0 || errno == EINTR || errno == EIO, "standard input: {}",
                  std::strerror(errno));
    // EIO: the terminal is gone.
    if (count == 0 || (count < 0 && errno == EIO)) ended_ = true;
    if (count > 0) read_.append(bytes, static_cast<size_t>(count));
  }
}

}  // namespace viaduct::cli
