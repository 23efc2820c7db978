#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/cpu_pause.h"
#include "base/error.h"
#include "base/thread.h"

namespace viaduct {
namespace {

// How long a worker polls for the next job before it sleeps: long enough to bridge the gap between
// two ops of a step, short enough not to steal a core from another rank.
constexpr int kSpins = 2000;

thread_local int t_worker =
    -1;  // index of this thread in the pool whose task it is running, −1 outside

}  // namespace

struct ThreadPool::State {
  using Task = FunctionRef<void(int64_t, int)>;

  std::vector<Thread> workers;
  std::mutex mutex;
  std::condition_variable wake, done;
  std::atomic<uint64_t> generation{0};
  // Numbers of tasks that are not claimed yet, and of tasks that are done. A job is over when all
  // its tasks are done, not when all workers have seen it: a worker that sleeps, or has no core,
  // does not delay a job that others finish. Such a worker may wake during the next job; so `task`
  // and `tasks` are read only by a thread that holds a claim, during which they cannot change.
  std::atomic<int64_t> unclaimed{0};
  std::atomic<int64_t> completed{0};
  int64_t tasks = 0;
  std::optional<Task> task;
  std::exception_ptr error;
  // Atomic because a worker that is late for the last job reads it while end() sets it: it may
  // leave at once, or first look for tasks and find none.
  std::atomic<bool> stop{false};
  bool may_spin = true;

  void work(int thread) {
    t_worker = thread;
    int64_t left = unclaimed.load(std::memory_order_acquire);
    while (left > 0) {
      if (!unclaimed.compare_exchange_weak(left, left - 1, std::memory_order_acquire)) continue;
      int64_t finished = 1;
      try {
        (*task)(tasks - left, thread);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        finished += unclaimed.exchange(0, std::memory_order_relaxed);  // the others will not start
      }
      const int64_t all = tasks;  // before the job may be over
      if (completed.fetch_add(finished, std::memory_order_acq_rel) + finished == all &&
          thread != 0) {
        std::lock_guard lock(mutex);
        done.notify_one();
      }
      left = unclaimed.load(std::memory_order_acquire);
    }
    t_worker = -1;
  }

  void end() {
    {
      std::lock_guard lock(mutex);
      stop.store(true, std::memory_order_relaxed);  // published by the generation
      generation.fetch_add(1, std::memory_order_release);
    }
    wake.notify_all();
    workers.clear();  // joins each worker
  }

  void loop(int thread) {
    uint64_t seen = 0;
    for (;;) {
      for (int spin = 0;
           may_spin && spin < kSpins && generation.load(std::memory_order_acquire) == seen;
           ++spin) {
        cpu_pause();
      }
      if (generation.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return generation.load(std::memory_order_relaxed) != seen; });
      }
      seen = generation.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_relaxed)) return;
      work(thread);
    }
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  VIADUCT_CHECK(ConfigError, threads >= 1, "thread pool: expected at least 1 thread, got {}",
                threads);
  state_->may_spin = threads <= static_cast<int>(std::thread::hardware_concurrency());
  try {
    for (int t = 1; t < threads; ++t)
      state_->workers.emplace_back([s = state_.get(), t] { s->loop(t); });
  } catch (...) {  // no more threads: stop the running ones before their state is destroyed
    state_->end();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  state_->end();
}

int ThreadPool::threads() const {
  return static_cast<int>(state_->workers.size()) + 1;
}

void ThreadPool::run(int64_t tasks, FunctionRef<void(int64_t, int)> task) {
  State& s = *state_;
  if (tasks <= 0) return;
  if (t_worker >= 0 || tasks == 1 || s.workers.empty()) {
    const int thread = t_worker >= 0 ? t_worker : 0;
    for (int64_t i = 0; i < tasks; ++i) task(i, thread);
    return;
  }
  {
    std::lock_guard lock(s.mutex);
    s.task = task;
    s.tasks = tasks;
    s.completed.store(0, std::memory_order_relaxed);
    s.error = nullptr;
    s.unclaimed.store(tasks, std::memory_order_release);
    s.generation.fetch_add(1, std::memory_order_release);
  }
  s.wake.notify_all();
  s.work(0);
  const auto over = [&] { return s.completed.load(std::memory_order_acquire) == tasks; };
  for (int spin = 0; s.may_spin && spin < kSpins && !over(); ++spin) cpu_pause();
  if (!over()) {
    std::unique_lock lock(s.mutex);
    s.done.wait(lock, over);
  }
  s.task.reset();
  if (s.error) std::rethrow_exception(std::exchange(s.error, nullptr));
}

int default_pool_threads(int local_ranks) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return std::max(1, cores / std::max(1, local_ranks));
}

}  // namespace viaduct
