#include "comm/thread/thread_world.h"

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "comm/failed_rank.h"

namespace viaduct {

ThreadWorld::ThreadWorld(int ranks, const WorldOptions& options)
    : options_(options),
      crowded_(ranks * std::max(1, options.threads_per_rank) >
               static_cast<int>(std::thread::hardware_concurrency())) {
  for (int rank = 0; rank < ranks; ++rank) ranks_.push_back(std::make_unique<Rank>());
}

void ThreadWorld::fail(int rank, std::string_view cause, std::exception_ptr exception) {
  {
    const std::lock_guard guard(mutex_);
    if (failed_rank_ < 0) {
      failed_rank_ = rank;
      cause_ = cause;
    }
    // What it throws after having called this is better, unless it only repeats it.
    const bool repeats = cause.find(cause_) != cause.npos && cause.size() > cause_.size();
    if (failed_rank_ == rank && exception_ == nullptr && !repeats)
      exception_ = std::move(exception);
  }
  failed_.store(true);
  tell_all();
}

std::string ThreadWorld::cause() const {
  const std::lock_guard guard(mutex_);
  return fmt::format("rank {}: {}", failed_rank_, cause_);
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
