#pragma once
// How the host thread of a rank sleeps until something that it waits for has changed. One bell a
// rank; whoever changes something rings, and a bell that nobody sleeps at costs one load.

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
