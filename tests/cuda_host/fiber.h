#pragma once
// Fibers: functions with stacks of their own, which one thread of the system runs in turn. A switch
// saves and restores the registers that a call preserves and nothing else, so it costs as much as a
// few calls (x86-64; elsewhere by ucontext, ten times slower). AddressSanitizer is told of it.

#include <cstddef>
#include <memory>

namespace cuda_host {

class Fiber {
 public:
  /// The thread itself: what others switch back to.
  Fiber();
  /// `entry` will run on a stack of `stack_bytes` at the first switch. It must never return: it
  /// switches away for the last time.
  Fiber(size_t stack_bytes, void (*entry)());
  Fiber(Fiber&&) noexcept;
  ~Fiber();

  /// From the beginning again, on the same stack; what was on it is forgotten, not destroyed.
  void restart();
  /// Runs `to` from where it stopped, until something switches back to `from`, which is running.
  static void switch_to(Fiber& from, Fiber& to);
  /// The first thing that `entry` does; `from` is the fiber that switched to it.
  static void entered(Fiber& from);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cuda_host
