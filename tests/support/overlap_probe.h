#pragma once
// Does communication move while a rank computes? The order of the program alone does not say: a
// communicator that did all its work in `wait` would have the same order. Here a rank's kernels go
// on for as long as an operation of the rank is under way, and nobody waits for it meanwhile. So
// what is complete after a kernel became complete under it, whatever the speed of the machine.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "ops/table.h"

namespace viaduct::test {

/// What one rank saw, by "operation group", as in "all_gather tp". Used by its host thread alone.
class OverlapProbe {
 public:
  /// Kernels go on for so long at most; then the operation counts as one that does not move.
  explicit OverlapProbe(double patience_seconds = 60) : patience_seconds_(patience_seconds) {}

  /// Operations that were under way when a kernel began and complete when it ended.
  const std::map<std::string, int>& hidden() const { return hidden_; }
  int hidden(const std::string& what) const;
  /// Operations that a kernel began beside and that were not complete after its patience.
  int stuck() const { return stuck_; }

  struct Open {
    std::string what;
    CommHandle handle;  // of a communicator that defers: empty until somebody waits
    bool deferred = false;
    bool counted = false;
  };
  void opened(std::shared_ptr<Open> operation);
  void closed(const Open* operation);
  void kernel_runs();

 private:
  double patience_seconds_;
  std::vector<std::shared_ptr<Open>> open_;
  std::map<std::string, int> hidden_;
  int stuck_ = 0;
};

/// `inner`, and all its splits, with every operation seen by `probe`. `defers`: as a bad backend,
/// it does nothing before the first wait, and all that it was asked for then.
std::shared_ptr<Communicator> probed(std::shared_ptr<Communicator> inner, OverlapProbe& probe,
                                     bool defers = false);

/// `table` with products and attention that run as the probe of their thread says. While a
/// `ProbedThread` lives, the kernels of its thread are its probe's.
OpTable probed(OpTable table);
class ProbedThread {
 public:
  explicit ProbedThread(OverlapProbe& probe);
  ~ProbedThread();
  ProbedThread(const ProbedThread&) = delete;
  ProbedThread& operator=(const ProbedThread&) = delete;
};

}  // namespace viaduct::test
