#pragma once
// Tasks on the threads of a pool, for callers that may have none.

#include "base/thread_pool.h"

namespace viaduct {

/// As `pool->run`; without a pool on the calling thread.
inline void run_tasks(ThreadPool* pool, int64_t tasks, FunctionRef<void(int64_t, int)> task) {
  if (pool != nullptr) return pool->run(tasks, task);
  for (int64_t index = 0; index < tasks; ++index) task(index, 0);
}

}  // namespace viaduct
