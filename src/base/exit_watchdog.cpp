#include "base/exit_watchdog.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

namespace viaduct {
namespace {

std::atomic<int> exit_status{1};
std::atomic<const char*> exit_message{""};
static_assert(std::atomic<const char*>::is_always_lock_free,
              "only lock-free atomics may be used in a signal handler");

extern "C" void on_time_over(int) {
  const char* message = exit_message.load();
  [[maybe_unused]] const ssize_t said = ::write(STDERR_FILENO, message, std::strlen(message));
  _exit(exit_status.load());
}

}  // namespace

void end_process_after(int seconds, int status, const char* message) {
  exit_status = status;
  exit_message = message;
  struct sigaction action {};
  action.sa_handler = on_time_over;
  sigemptyset(&action.sa_mask);
  sigaction(SIGALRM, &action, nullptr);
  // A library may have blocked the signal on this thread; any other thread can take it.
  sigset_t alarm_alone;
  sigemptyset(&alarm_alone);
  sigaddset(&alarm_alone, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &alarm_alone, nullptr);
  ::alarm(static_cast<unsigned>(seconds));
}

void let_process_live() {
  ::alarm(0);
}

}  // namespace viaduct
