#pragma once
// Tests whether communication progresses while a rank computes. The order of the program does not
// show it: a communicator that works only in `wait` has the same order. Here a rank's kernels run
// as long as an operation of the rank is in flight, and nothing waits for the operation meanwhile.
// So an operation that is complete after a kernel was completed during it, at any speed of the
// machine.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "ops/table.h"

namespace viaduct::test {

/// Observations of one rank, by "operation group", as in "all_gather tp". Used only by its host
/// thread.
class OverlapProbe {
 public:
  /// Maximum time of a kernel; after it the operation counts as not progressing.
  explicit OverlapProbe(double patience_seconds = 60) : patience_seconds_(patience_seconds) {}

  /// Operations in flight when a kernel began and complete when it ended.
  const std::map<std::string, int>& hidden() const { return hidden_; }
  int hidden(const std::string& what) const;
  /// Operations in flight when a kernel began and not complete after its maximum time.
  int stuck() const { return stuck_; }

  struct Open {
    std::string what;
    CommHandle handle;  // of a deferring communicator: empty until the first wait
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

/// `inner` and all its splits, with every operation observed by `probe`. `defers`: all operations
/// run at the first wait, as in a bad backend.
std::shared_ptr<Communicator> probed(std::shared_ptr<Communicator> inner, OverlapProbe& probe,
                                     bool defers = false);

/// `table` with GEMMs and attention whose duration is set by the probe of their thread. While a
/// `ProbedThread` exists, its probe controls the kernels of its thread.
OpTable probed(OpTable table);
class ProbedThread {
 public:
  explicit ProbedThread(OverlapProbe& probe);
  ~ProbedThread();
  ProbedThread(const ProbedThread&) = delete;
  ProbedThread& operator=(const ProbedThread&) = delete;
};

}  // namespace viaduct::test
