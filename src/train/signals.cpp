#include "train/signals.h"

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/error.h"

namespace viaduct {
namespace {

// Atomic rather than volatile sig_atomic_t: the handler runs on whichever thread the kernel picks,
// the loop reads on another.
std::atomic<int> first_signal{0};
std::atomic<int64_t> told_to_stop_at{0};  // nanoseconds; by SIGINT or SIGTERM, 0: not yet
std::atomic<const StopAnswer*> stop_answer{nullptr};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free &&
                  std::atomic<const StopAnswer*>::is_always_lock_free,
              "only lock-free atomics may be used in a signal handler");

int64_t now_nanoseconds() {
  struct timespec now {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

extern "C" void on_warning_signal(int signal) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
}

extern "C" void on_stop_signal(int signal) {
  const int error = errno;
  on_warning_signal(signal);
  const StopAnswer* answer = stop_answer;
  const int64_t now = now_nanoseconds();
  int64_t first = 0;
  if (told_to_stop_at.compare_exchange_strong(first, now)) {
    // A stream that takes no text is no reason to do anything else.
    if (answer != nullptr && answer->descriptor >= 0) {
      const ssize_t written = write(answer->descriptor, answer->text.data(), answer->text.size());
      static_cast<void>(written);
    }
  } else if (answer == nullptr || now - first >= answer->one_request_nanoseconds) {
    _exit(128 + signal);
  }
  errno = error;
}

int number_of(WarningSignal signal) {
  switch (signal) {
    case WarningSignal::hup:
      return SIGHUP;
    case WarningSignal::usr1:
      return SIGUSR1;
    case WarningSignal::usr2:
      break;
  }
  return SIGUSR2;
}

struct sigaction current_action(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return action;
}

}  // namespace

StopSignals::StopSignals(const std::vector<WarningSignal>& warnings, StopAnswer answer)
    : answer_(std::move(answer)) {
  std::vector<int> others;
  for (const WarningSignal signal : warnings) others.push_back(number_of(signal));
  VIADUCT_CHECK(Error, current_action(SIGTERM).sa_handler != on_stop_signal,
                "stop signals are already handled in this process");
  first_signal = 0;
  told_to_stop_at = 0;
  stop_answer = &answer_;
  struct sigaction action {};
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&action.sa_mask, signal);
  const auto handle = [&](int signal, void (*handler)(int)) {
    previous_.emplace_back(signal, current_action(signal));
    action.sa_handler = handler;
    sigaction(signal, &action, nullptr);
  };
  for (const int signal : {SIGINT, SIGTERM}) handle(signal, on_stop_signal);
  for (const int signal : others) {
    if (current_action(signal).sa_handler != SIG_IGN) handle(signal, on_warning_signal);
  }
}

StopSignals::~StopSignals() {
  for (auto at = previous_.rbegin(); at != previous_.rend(); ++at)
    sigaction(at->first, &at->second, nullptr);
  stop_answer = nullptr;
}

int StopSignals::received() const {
  return first_signal;
}

}  // namespace viaduct
