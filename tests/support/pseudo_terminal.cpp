#include "support/pseudo_terminal.h"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "base/error.h"

namespace viaduct::test {
namespace {

// For programs that hang; nothing depends on it otherwise.
constexpr int kMilliseconds = 120'000;

}  // namespace

PseudoTerminal::PseudoTerminal(const std::string& command) {
  child_ = forkpty(&descriptor_, nullptr, nullptr, nullptr);
  VIADUCT_CHECK(Error, child_ >= 0, "no pseudo terminal");
  if (child_ == 0) {
    // `exec`, so that the program itself gets the signals.
    const std::string line = "exec " + command;
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }
}

PseudoTerminal::~PseudoTerminal() {
  if (child_ > 0) {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  close(descriptor_);
}

void PseudoTerminal::type(const std::string& keys) {
  const ssize_t written = write(descriptor_, keys.data(), keys.size());
  VIADUCT_CHECK(Error, written == static_cast<ssize_t>(keys.size()), "the terminal takes no keys");
}

bool PseudoTerminal::read_more() {
  struct pollfd asked {
    descriptor_, POLLIN, 0
  };
  char bytes[4096];
  if (poll(&asked, 1, kMilliseconds) <= 0) return false;
  const ssize_t count = read(descriptor_, bytes, sizeof bytes);
  if (count > 0) read_.append(bytes, static_cast<size_t>(count));
  return count > 0;
}

std::string PseudoTerminal::until(const std::string& text) {
  size_t found = read_.find(text);
  while (found == std::string::npos && read_more()) found = read_.find(text);
  if (found == std::string::npos) return std::exchange(read_, "");
  std::string shown = read_.substr(0, found + text.size());
  read_.erase(0, shown.size());
  return shown;
}

std::string PseudoTerminal::until_bytes(size_t bytes) {
  while (read_.size() < bytes && read_more()) continue;
  return std::exchange(read_, "");
}

int PseudoTerminal::wait() {
  while (read_more()) continue;  // a program must not wait for its reader
  int status = 0;
  waitpid(child_, &status, 0);
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace viaduct::test
