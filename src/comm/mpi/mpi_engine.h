#pragma once
// Drives the operations of one rank. Each call of `poll` advances all of them: the host thread
// calls it while it waits, the progress thread otherwise. One lock protects every call to MPI.

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/thread.h"
#include "comm/mpi/mpi_failure.h"
#include "comm/mpi/mpi_operation.h"
#include "comm/world.h"

namespace viaduct {

/// The collectives of one communicator in launch order; the first is in flight.
struct MpiQueue {
  std::deque<std::shared_ptr<MpiOperation>> operations;
  uint32_t launched = 0;
  Scratch scratch;  // of the operation in flight
};

class MpiEngine {
 public:
  MpiEngine(MpiNetwork& network, const WorldOptions& options);
  ~MpiEngine();
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;

  /// Begins `operation`, at once (messages: `queue` null) or after the earlier ones in `queue`.
  /// `overlaps`: the caller will not wait at once, so the progress thread is woken.
  void start(std::shared_ptr<MpiOperation> operation, const std::shared_ptr<MpiQueue>& queue,
             bool overlaps);
  /// True once done; never blocks. CommError as for `wait`.
  bool ready(MpiOperation& operation, const MpiQueue* queue, double asked_seconds);
  /// Blocks until done. CommError after the timeout, counted from `asked_seconds` (now), or with
  /// the first cause if a rank failed.
  void wait(MpiOperation& operation, const MpiQueue* queue, double asked_seconds);
  /// The caller drops `operation`: it finishes soon, or is cancelled.
  void forget(MpiOperation& operation) noexcept;

  /// Calls `f` with the network while nothing else calls MPI.
  void with_network(FunctionRef<void(MpiNetwork&)> f);

  /// This rank failed: all its operations fail from now on with `cause`, and the other ranks are
  /// notified.
  void fail_all(std::string_view cause);
  /// Why a rank has failed, as far as this one knows now; else empty. Any thread may call it.
  std::string failure();
  /// As `fail_all`; then returns the first failure of the run, the same on all ranks.
  MpiFailure settle(std::string_view cause);
  /// After `fail_all`: waits until the ranks agree on the first failure, then lets operations begin
  /// again, on the network's spare group, once all ranks have come. CommError if one does not
  /// within `seconds`, which from then on is the timeout. Failures of other ranks are no longer
  /// heard of.
  void reconnect(double seconds);
  /// Returns when all ranks have called it; CommError if one failed. No timeout: a rank that is
  /// still working may take long, and a rank that waits for it elsewhere has its own timeout.
  void end_together();
  /// After this nothing calls MPI any more.
  void stop() noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;
  bool poll();
  void look_for_failures();
  void fail_here(std::string cause);
  void give_up_running();
  /// The first failure of the run, once it is known here and this rank's report has left; after a
  /// time without rank 0, `cause` of this rank.
  MpiFailure await_decision(std::string_view cause);
  void throw_if_failed() const;
  void check_time(const MpiOperation& operation, const MpiQueue* queue, double asked_seconds);
  void serve();

  MpiNetwork& network_;
  double timeout_seconds_;
  const bool crowded_;  // more threads than cores on this machine: do not spin
  std::mutex mutex_;
  std::condition_variable woken_;
  MpiFailureWatch watch_;
  std::optional<std::string> failed_;  // why every operation of this rank fails
  bool reconnected_ = false;           // the failure that the watch knows is behind this rank
  struct Running {
    std::shared_ptr<MpiOperation> operation;
    std::shared_ptr<MpiQueue> queue;  // null: a message
  };
  std::vector<Running> running_;
  unsigned polls_ = 0;
  int waiting_ = 0;  // host threads inside `wait`
  bool stopping_ = false;
  Thread progress_;
};

}  // namespace viaduct
