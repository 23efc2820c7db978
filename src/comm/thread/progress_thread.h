#pragma once
// The progress thread of a rank: does pieces of operations that no rank is waiting for, of all
// communicators. It waits only for work, and is started by the first.

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "base/thread.h"
#include "comm/thread/shared_operation.h"

namespace viaduct {

class ProgressThread {
 public:
  ProgressThread() = default;
  ~ProgressThread();

  /// Queues the operation: the thread helps with it, then releases it.
  void serve(std::shared_ptr<SharedOperation> operation, int party);

 private:
  void loop();

  struct Job {
    std::shared_ptr<SharedOperation> operation;
    int party = 0;
  };
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  bool stop_ = false;
  Thread thread_;
};

}  // namespace viaduct
