#pragma once
// Ctrl-C and SIGTERM during training: the first asks the loop to stop after its step and to save, a
// second ends the process at once.
//
// A signal handler gets no argument of its own, so what it sets can only be a global: one lock-free
// atomic number in signals.cpp, the only mutable global of the library. It means nothing while no
// StopSignals exists, and at most one exists in a process.

#include <signal.h>

namespace viaduct {

/// Installs the handlers for its lifetime, then puts back what was there. A signal that was ignored
/// before (a background job of a script) is handled too: saving is harmless.
class StopSignals {
 public:
  /// Error if another one exists.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The first signal that came since construction (SIGINT or SIGTERM), 0 while none has. A second
  /// one, of either kind, ends the process with status 128 + signal (130, 143) without any
  /// clean-up: it may be that the clean-up hangs.
  int received() const;

 private:
  struct sigaction previous_[2];
};

}  // namespace viaduct
