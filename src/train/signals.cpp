#include "train/signals.h"

#include <unistd.h>

#include <atomic>

#include "base/error.h"

namespace viaduct {
namespace {

// Atomic rather than volatile sig_atomic_t: the handler runs on whichever thread the kernel picks,
// the loop reads on another.
std::atomic<int> first_signal{0};
static_assert(std::atomic<int>::is_always_lock_free,
              "only lock-free atomics may be used in a signal handler");

constexpr int kSignals[] = {SIGINT, SIGTERM};

extern "C" void on_stop_signal(int signal) {
  int none = 0;
  if (!first_signal.compare_exchange_strong(none, signal)) _exit(128 + signal);
}

}  // namespace

StopSignals::StopSignals() {
  for (int i = 0; i < 2; ++i) {
    struct sigaction current {};
    sigaction(kSignals[i], nullptr, &current);
    VIADUCT_CHECK(Error, current.sa_handler != on_stop_signal,
                  "stop signals are already handled in this process");
  }
  first_signal = 0;
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (int signal : kSignals) sigaddset(&action.sa_mask, signal);
  for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &action, &previous_[i]);
}

StopSignals::~StopSignals() {
  for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &previous_[i], nullptr);
}

int StopSignals::received() const {
  return first_signal;
}

}  // namespace viaduct
