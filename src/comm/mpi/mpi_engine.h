#pragma once
// Drives the operations of one rank. Whoever calls `poll` moves all of them on: the host thread
// while it waits, the progress thread otherwise. One lock is around every call to MPI.

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

/// The collectives of one communicator in the order of launching; the first is under way.
struct MpiQueue {
  std::deque<std::shared_ptr<MpiOperation>> operations;
  uint32_t launched = 0;
  Scratch scratch;  // of the one under way
};

class MpiEngine {
 public:
  MpiEngine(MpiNetwork& network, const WorldOptions& options);
  ~MpiEngine();
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;

  /// Begins `operation`, at once (messages: `queue` null) or after those before it in `queue`.
  /// `overlaps`: it will not be waited for at once, so that the progress thread is woken for it.
  void start(std::shared_ptr<MpiOperation> operation, const std::shared_ptr<MpiQueue>& queue,
             bool overlaps);
  /// True once done; never blocks. CommError as `wait`.
  bool ready(MpiOperation& operation, const MpiQueue* queue, double asked_seconds);
  /// Blocks until done. CommError after the timeout, counted from `asked_seconds` (now), or with
  /// the first cause where a rank failed.
  void wait(MpiOperation& operation, const MpiQueue* queue, double asked_seconds);
  /// The caller forgets `operation`: it ends soon, or is given up.
  void forget(MpiOperation& operation) noexcept;

  /// Calls `f` with the network while nothing else calls MPI.
  void with_network(FunctionRef<void(MpiNetwork&)> f);

  /// This rank failed: all its operations fail from now on with `cause`, and the others are told.
  void fail_all(std::string_view cause);
  /// As `fail_all`; then the first failure of the run, as all ranks will know it.
  MpiFailure settle(std::string_view cause);
  /// Returns when all ranks have come here; CommError where one failed. No timeout: a rank that is
  /// still at work may take long, and one that waits in vain has a timeout of its own.
  void end_together();
  /// Nothing calls MPI any more after this.
  void stop() noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;
  bool poll();
  void look_for_failures();
  void fail_here(std::string cause);
  void give_up_running();
  void throw_if_failed() const;
  void check_time(const MpiOperation& operation, const MpiQueue* queue, double asked_seconds);
  void serve();

  MpiNetwork& network_;
  const double timeout_seconds_;
  const bool crowded_;  // more threads than cores on this machine: do not spin
  std::mutex mutex_;
  std::condition_variable woken_;
  MpiFailureWatch watch_;
  std::optional<std::string> failed_;  // why every operation of this rank fails
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
