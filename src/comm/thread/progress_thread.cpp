#include "comm/thread/progress_thread.h"

#include <system_error>

namespace viaduct {

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ProgressThread::serve(std::shared_ptr<SharedOperation> operation, int party) {
  {
    const std::lock_guard guard(mutex_);
    if (!thread_.joinable()) {
      try {
        thread_ = Thread([this] { loop(); });
      } catch (const std::system_error&) {
        operation->release();
        return;  // no more threads: the waiting rank does the work
      }
    }
    jobs_.push_back({std::move(operation), party});
  }
  wake_.notify_one();
}

void ProgressThread::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job.operation->help(job.party);
    job.operation->release();
    lock.lock();
  }
}

}  // namespace viaduct
