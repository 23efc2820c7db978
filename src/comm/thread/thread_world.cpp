#include "comm/thread/thread_world.h"

#include <sched.h>

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "comm/failed_rank.h"

namespace viaduct {

ThreadWorld::ThreadWorld(int ranks, const WorldOptions& options)
    : options_(options),
      cores_(std::max(1, static_cast<int>(std::thread::hardware_concurrency()))),
      crowded_(ranks * std::max(1, options.threads_per_rank) > cores_) {
  for (int rank = 0; rank < ranks; ++rank) ranks_.push_back(std::make_unique<Rank>());
}

void ThreadWorld::await(int rank, const SharedOperation* operation) {
  Rank& mine = state(rank);
  if (const int core = sched_getcpu(); mine.core.load(std::memory_order_relaxed) != core)
    mine.core.store(core);
  mine.awaited.store(operation);
}

bool ThreadWorld::alone_on_core(int rank) const {
  const Rank& mine = *ranks_[index(rank)];
  const int core = mine.core.load();
  return std::all_of(ranks_.begin(), ranks_.end(), [&](const auto& other) {
    return other->core.load() != core || other->awaited.load() == mine.awaited.load();
  });
}

void ThreadWorld::fail(int rank, std::string_view cause, std::exception_ptr exception) {
  {
    const std::lock_guard guard(mutex_);
    if (failed_rank_ < 0) {
      failed_rank_ = rank;
      cause_ = cause;
    }
    // The exception thrown afterwards is preferred, unless it only repeats the cause.
    const bool repeats = cause.find(cause_) != cause.npos && cause.size() > cause_.size();
    if (failed_rank_ == rank && exception_ == nullptr && !repeats)
      exception_ = std::move(exception);
  }
  failed_.store(true);
  tell_all();
}

std::string ThreadWorld::cause() const {
  const std::lock_guard guard(mutex_);
  return of_rank(failed_rank_, cause_);
}

void ThreadWorld::rethrow() const {
  if (failed_rank_ < 0) return;
  if (exception_ == nullptr) throw CommError(cause());
  rethrow_of_rank(failed_rank_, exception_);
}

void ThreadWorld::end(int rank) {
  state(rank).ended.store(true);
  tell_all();
}

void ThreadWorld::tell_all() {
  events_.fetch_add(1);
  for (const auto& rank : ranks_) rank->bell.ring();
}

}  // namespace viaduct
