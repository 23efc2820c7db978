#include "comm/thread/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>

namespace viaduct {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

// std::atomic::wait has no time limit, so the system call is made here.
void Doorbell::block(uint32_t seen, double seconds) {
  const double whole = std::floor(std::clamp(seconds, 0.0, 1e6));
  const timespec limit{static_cast<time_t>(whole),
                       static_cast<long>((std::clamp(seconds, 0.0, 1e6) - whole) * 1e9)};
  syscall(SYS_futex, &rings_, FUTEX_WAIT_PRIVATE, seen, &limit, nullptr, 0);
}

void Doorbell::wake() {
  rings_.fetch_add(1);
  syscall(SYS_futex, &rings_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace viaduct
