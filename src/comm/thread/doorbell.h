#pragma once
// The host thread of a rank sleeps here until a condition that it waits for may have changed. One
// doorbell per rank; the thread that makes a change rings, which costs one load if no thread
// sleeps.

#include <atomic>
#include <cstdint>

namespace viaduct {

class Doorbell {
 public:
  /// Sleeps until rung, or for `seconds`; may wake early. Returns at once if `changed()` holds
  /// after the sleeper has been announced, so a change followed by `ring` is never missed.
  template <class Changed>
  void sleep(double seconds, Changed&& changed) {
    asleep_.store(true);
    const uint32_t seen = rings_.load();
    if (!changed()) block(seen, seconds);
    asleep_.store(false);
  }
  /// Called after the change (a sequentially consistent store) by any thread.
  void ring() {
    if (asleep_.load()) wake();
  }

 private:
  void block(uint32_t seen, double seconds);
  void wake();

  alignas(64) std::atomic<uint32_t> rings_{0};
  std::atomic<bool> asleep_{false};
};

}  // namespace viaduct
