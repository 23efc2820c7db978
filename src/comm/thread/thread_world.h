#pragma once
// What the ranks of one run share: their bells and progress threads, who has ended, and the first
// cause of a failure.

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/thread/doorbell.h"
#include "comm/thread/progress_thread.h"
#include "comm/world.h"

namespace viaduct {

class ThreadWorld {
 public:
  ThreadWorld(int ranks, const WorldOptions& options);

  int ranks() const { return static_cast<int>(ranks_.size()); }
  double timeout_seconds() const { return options_.timeout_seconds; }
  /// More threads than cores: who waits gives its core away.
  bool crowded() const { return crowded_; }
  int cores() const { return cores_; }

  /// The host thread of `rank` does nothing but wait for `operation` from now on; null: it goes on.
  void await(int rank, const SharedOperation* operation);
  const SharedOperation* awaited(int rank) const { return ranks_[index(rank)]->awaited.load(); }
  /// Every other rank that was last seen on the core of `rank` waits for what `rank` waits for.
  bool alone_on_core(int rank) const;

  Doorbell& bell(int rank) { return state(rank).bell; }
  /// Hands a running operation to the progress thread of `rank`.
  void serve(int rank, std::shared_ptr<SharedOperation> operation, int party) {
    state(rank).progress.serve(std::move(operation), party);
  }

  /// Rank `rank` failed. The first call counts; a later one of the same rank adds its exception.
  void fail(int rank, std::string_view cause, std::exception_ptr exception = nullptr);
  bool failed() const { return failed_.load(); }
  /// "rank 3: …": what the first rank that failed said.
  std::string cause() const;
  /// Throws the first cause with its rank in front of its message; returns if none failed.
  void rethrow() const;

  /// The program of `rank` has returned: it will never call an operation again.
  void end(int rank);
  bool has_ended(int rank) { return state(rank).ended.load(); }
  /// Grows whenever a rank fails or ends.
  uint32_t events() const { return events_.load(); }

 private:
  struct Rank {
    Doorbell bell;
    std::atomic<bool> ended{false};
    alignas(64) std::atomic<const SharedOperation*> awaited{nullptr};
    std::atomic<int> core{-1};  // that it last waited on
    ProgressThread progress;
  };
  static size_t index(int rank) { return static_cast<size_t>(rank); }
  Rank& state(int rank) { return *ranks_[index(rank)]; }
  void tell_all();

  WorldOptions options_;
  int cores_;
  bool crowded_;
  alignas(64) std::atomic<bool> failed_{false};
  alignas(64) std::atomic<uint32_t> events_{0};
  mutable std::mutex mutex_;  // of the first cause
  int failed_rank_ = -1;
  std::string cause_;
  std::exception_ptr exception_;
  std::vector<std::unique_ptr<Rank>> ranks_;  // last: its threads end before the rest
};

}  // namespace viaduct
