#pragma once
// Shared state of the ranks of one run: their doorbells and progress threads, which have ended, and
// the first cause of a failure.

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
  const WorldOptions& options() const { return options_; }
  /// More threads than cores: a waiting thread yields its core.
  bool crowded() const { return crowded_; }
  int cores() const { return cores_; }

  /// The host thread of `rank` only waits for `operation` from now on; null: it has stopped
  /// waiting.
  void await(int rank, const SharedOperation* operation);
  const SharedOperation* awaited(int rank) const { return ranks_[index(rank)]->awaited.load(); }
  /// Whether every other rank last seen on the core of `rank` waits for the same operation as
  /// `rank`.
  bool alone_on_core(int rank) const;

  Doorbell& bell(int rank) { return state(rank).bell; }
  /// Hands a running operation to the progress thread of `rank`.
  void serve(int rank, std::shared_ptr<SharedOperation> operation, int party) {
    state(rank).progress.serve(std::move(operation), party);
  }

  /// Rank `rank` failed. Only the first call counts; a later one of the same rank adds its
  /// exception.
  void fail(int rank, std::string_view cause, std::exception_ptr exception = nullptr);
  bool failed() const { return failed_.load(); }
  /// "rank 3: …": the cause that the first failed rank gave.
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
    std::atomic<int> core{-1};  // core of its last wait
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
