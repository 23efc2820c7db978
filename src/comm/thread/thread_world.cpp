#include "comm/thread/thread_world.h"

#include <algorithm>
#include <thread>
#include <typeinfo>

#include "base/error.h"

namespace viaduct {
namespace {

/// Throws the same with `prefix` in front if `error` is exactly an `E`.
template <class E>
void rethrow_as(const std::exception& error, const std::string& prefix) {
  if (typeid(error) == typeid(E)) throw E(prefix + error.what());
}

}  // namespace

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
  const std::string prefix = fmt::format("rank {}: ", failed_rank_);
  try {
    std::rethrow_exception(exception_);
  } catch (const ConfigError& error) {
    std::vector<std::string> problems = error.problems();
    for (std::string& problem : problems) problem.insert(0, prefix);
    throw ConfigError(std::move(problems));
  } catch (const std::exception& error) {
    rethrow_as<ShapeError>(error, prefix);
    rethrow_as<DeviceError>(error, prefix);
    rethrow_as<CommError>(error, prefix);
    rethrow_as<IoError>(error, prefix);
    rethrow_as<Error>(error, prefix);
    rethrow_as<std::runtime_error>(error, prefix);
    throw;  // of a type that cannot be made anew
  }
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
