#pragma once
// Signals that make a training run stop after its step and save.
//
// SIGINT (Ctrl-C) and SIGTERM always do; a second one of them ends the process at once, unless it
// comes within 3 seconds: GNU `timeout` and some schedulers send one request twice, to the process
// and to its group. Warnings
// (SIGHUP, SIGUSR1, SIGUSR2: a closed terminal, Slurm's --signal before the time limit) do so too
// and never end the process: a SIGTERM after a warning counts as the first.
//
// A signal handler gets no argument, so it can only use globals: three lock-free atomics in
// signals.cpp (see "No mutable globals" in docs/architecture.md). They have no meaning without a
// StopSignals, and at most one exists in a process.

#include <signal.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "run/train_config.h"

namespace viaduct {

/// What the first SIGINT or SIGTERM writes, from its handler, and what counts as a repeat of it.
struct StopAnswer {
  int descriptor = -1;  // that `text` is written to; below 0: none
  std::string text;
  int64_t one_request_nanoseconds = 3'000'000'000;  // repeats within this time of the first
};

/// Installs the handlers for its lifetime, then restores the previous ones. SIGINT and SIGTERM that
/// were ignored before (a background job of a script) are handled too: saving is harmless. A
/// warning that was ignored stays so: `nohup` ignores SIGHUP so that the run continues.
class StopSignals {
 public:
  /// Error if another StopSignals exists.
  explicit StopSignals(const std::vector<WarningSignal>& warnings = {}, StopAnswer answer = {});
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The first signal since construction, 0 if there was none. A second SIGINT or SIGTERM that is
  /// no repeat, of either kind, ends the process with status 128 + signal (130, 143) without any
  /// clean-up, as the clean-up may hang.
  int received() const;

 private:
  StopAnswer answer_;
  std::vector<std::pair<int, struct sigaction>> previous_;
};

}  // namespace viaduct
