#include "inference/interrupts.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace viaduct {
namespace {

std::atomic<bool> interrupted{false};
std::atomic<int> told_descriptor{-1};  // that the handler writes to
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "only lock-free atomics may be used in a signal handler");

extern "C" void on_interrupt(int) {
  const int error = errno;
  interrupted = true;
  // A pipe that is full has been told already.
  const ssize_t written = write(told_descriptor, "", 1);
  static_cast<void>(written);
  errno = error;
}

}  // namespace

Interrupts::Interrupts() {
  VIADUCT_CHECK(Error, told_descriptor < 0, "interrupts are already handled in this process");
  VIADUCT_CHECK(Error, pipe2(ends_, O_CLOEXEC | O_NONBLOCK) == 0, "no pipe for interrupts: {}",
                std::strerror(errno));
  interrupted = false;
  told_descriptor = ends_[1];
  sigaction(SIGINT, nullptr, &previous_);
  if (previous_.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

Interrupts::~Interrupts() {
  sigaction(SIGINT, &previous_, nullptr);
  told_descriptor = -1;
  for (const int end : ends_) close(end);
}

bool Interrupts::any() const {
  return interrupted;
}

void Interrupts::clear() {
  interrupted = false;
  char told[64];
  while (read(ends_[0], told, sizeof told) > 0) continue;
}

}  // namespace viaduct
