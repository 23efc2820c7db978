#pragma once
// Fibers: functions with their own stacks, which one thread of the system runs in turn. A switch
// saves and restores only the registers that a call preserves, so it costs as much as a few calls
// (x86-64; elsewhere ucontext is used, ten times slower). AddressSanitizer is informed of it.

#include <cstddef>
#include <memory>

namespace cuda_host {

class Fiber {
 public:
  /// The thread itself, to which other fibers switch back.
  Fiber();
  /// `entry` will run on a stack of `stack_bytes` at the first switch. It must never return: at its
  /// end it switches away.
  Fiber(size_t stack_bytes, void (*entry)());
  Fiber(Fiber&&) noexcept;
  ~Fiber();

  /// Restarts from the beginning, on the same stack; the stack's previous content is dropped, not
  /// destroyed.
  void restart();
  /// Resumes `to` where it stopped, until something switches back to `from`, the running fiber.
  static void switch_to(Fiber& from, Fiber& to);
  /// Must be the first call in `entry`; `from` is the fiber that switched to it.
  static void entered(Fiber& from);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cuda_host
