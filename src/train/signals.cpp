#include "train/signals.h"

#include <unistd.h>

#include <atomic>

#include "base/error.h"

namespace viaduct {
namespace {

// Atomic rather than volatile sig_atomic_t: the handler runs on whichever thread the kernel picks,
// the loop reads on another.
std::atomic<int> first_signal{0};
std::atomic<bool> told_to_stop{false};  // by SIGINT or SIGTERM
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "only lock-free atomics may be used in a signal handler");

extern "C" void on_warning_signal(int signal) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
}

extern "C" void on_stop_signal(int signal) {
  on_warning_signal(signal);
  if (told_to_stop.exchange(true)) _exit(128 + signal);
}

int number_of(const std::string& name) {
  if (name == "SIGHUP") return SIGHUP;
  if (name == "SIGUSR1") return SIGUSR1;
  if (name == "SIGUSR2") return SIGUSR2;
  fail<ConfigError>("{} cannot be used: expected SIGHUP, SIGUSR1 or SIGUSR2", name);
}

struct sigaction current_action(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return action;
}

}  // namespace

StopSignals::StopSignals(const std::vector<std::string>& warnings) {
  std::vector<int> others;
  for (const std::string& name : warnings) others.push_back(number_of(name));
  VIADUCT_CHECK(Error, current_action(SIGTERM).sa_handler != on_stop_signal,
                "stop signals are already handled in this process");
  first_signal = 0;
  told_to_stop = false;
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
}

int StopSignals::received() const {
  return first_signal;
}

}  // namespace viaduct
