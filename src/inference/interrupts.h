#pragma once
// Ctrl-C of a command that goes on after it: `viaduct chat` stops the answer that is being written,
// and says what leaves.
//
// A signal handler gets no argument, so it can only use globals: two lock-free atomics in
// interrupts.cpp (see "No mutable globals" in docs/architecture.md). They have no meaning without
// an Interrupts, and at most one exists in a process.

#include <signal.h>

namespace viaduct {

/// SIGINT sets a flag while this exists; then the previous handler is restored. A SIGINT that was
/// ignored before stays so (a background job of a script).
class Interrupts {
 public:
  /// Error if another one exists, or if the system has no more descriptors.
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Whether SIGINT came since the last `clear`. Any thread may ask.
  bool any() const;
  void clear();
  /// A descriptor that becomes readable with the next SIGINT: for `poll`, as a signal ends the
  /// waiting of one thread alone, which need not be the one that waits for input.
  int descriptor() const { return ends_[0]; }

 private:
  int ends_[2] = {-1, -1};
  struct sigaction previous_ {};
};

}  // namespace viaduct
