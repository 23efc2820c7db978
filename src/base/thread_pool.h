#pragma once
// One pool of worker threads per rank. Work is cut into tasks whose number and boundaries depend on
// the problem only, never on the number of threads, so results are bitwise equal for any pool size.

#include <cstdint>
#include <memory>

#include "base/function_ref.h"

namespace viaduct {

class ThreadPool {
 public:
  /// A pool of `threads` ≥ 1 workers, the caller of `run` included.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  /// Calls `task(index, thread)` for index in [0, tasks), in any order, on all threads, and returns
  /// when all are done. `thread` in [0, threads()) identifies the worker (for scratch memory). The
  /// first exception is rethrown here. Not reentrant: called from inside a task it runs the tasks
  /// only on the calling worker.
  void run(int64_t tasks, FunctionRef<void(int64_t index, int thread)> task);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// max(1, cores / local_ranks): the pool size of a rank when the configuration sets none.
int default_pool_threads(int local_ranks);

}  // namespace viaduct
