#pragma once
// A lock for critical sections of a few dozen instructions: a mutex would put the second of two
// ranks that arrive at the same time to sleep.

#include <atomic>
#include <thread>

#include "base/cpu_pause.h"

namespace viaduct {

class SpinLock {
 public:
  void lock() {
    for (int tries = 0; taken_.exchange(true, std::memory_order_acquire);) {
      while (taken_.load(std::memory_order_relaxed)) {
        // The holder may have lost its core: yield after some microseconds.
        if (++tries < 100)
          cpu_pause();
        else
          std::this_thread::yield();
      }
    }
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

}  // namespace viaduct
