#include "comm/mpi/mpi_engine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/cpu_pause.h"
#include "base/error.h"
#include "comm/failed_rank.h"

namespace viaduct {
namespace {

using std::chrono::microseconds;

// The progress thread's polling interval: kIdle with nothing in flight; from kShortest up to
// kLongest while operations are in flight but no message arrives.
constexpr microseconds kIdle{1000}, kShortest{10}, kLongest{200};
// Number of polls between two checks for failures of other ranks.
constexpr unsigned kPollsPerWatch = 64;
// If every rank has a core of its own, small operations end within this many polls: the lock is
// kept between them.
constexpr int kRoundsAtOnce = 16;
// How long a failing rank waits for rank 0's decision and for its own report to leave. Higher ranks
// wait longer, so that without rank 0 they do not all decide at once.
constexpr double kSettleSeconds = 2, kSettleSecondsOfRank = 0.25;
// How long a dropped handle waits for its operation in flight.
constexpr double kForgetSeconds = 0.2;
// In the control group, besides the tags of mpi_failure.cpp.
constexpr int kMeetingTag = 0;
// In the spare group, below the tags of mpi_communicator.cpp.
constexpr int kReconnectTag = 3;

/// What a waiting thread does between polls: first it spins, then it yields, then it sleeps.
class Patience {
 public:
  explicit Patience(bool crowded) : crowded_(crowded) {}
  void operator()() {
    ++rounds_;
    if (rounds_ < (crowded_ ? 4 : 256)) return cpu_pause();
    if (rounds_ < 4096) return std::this_thread::yield();
    std::this_thread::sleep_for(microseconds(50));
  }

 private:
  bool crowded_;
  int rounds_ = 0;
};

/// True if there are more computing threads than cores for them. If the launcher binds a rank to
/// cores of its own, the rank shares them with no other.
bool crowded(int local_ranks, int threads_per_rank) {
  const auto allowed = static_cast<int64_t>(std::thread::hardware_concurrency());
  const bool bound = allowed < sysconf(_SC_NPROCESSORS_CONF);
  return (bound ? 1 : local_ranks) * static_cast<int64_t>(std::max(1, threads_per_rank)) > allowed;
}

}  // namespace

MpiEngine::MpiEngine(MpiNetwork& network, const WorldOptions& options)
    : network_(network),
      timeout_seconds_(options.timeout_seconds),
      crowded_(crowded(network.local_ranks(), options.threads_per_rank)),
      watch_(network.control()),
      progress_([this] { serve(); }) {}

MpiEngine::~MpiEngine() {
  stop();
}

void MpiEngine::stop() noexcept {
  {
    const Lock lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
    woken_.notify_all();
  }
  progress_.join();
  const Lock lock(mutex_);
  give_up_running();
  if (!failed_) failed_ = "MPI has ended";
  watch_.give_up();
}

void MpiEngine::start(std::shared_ptr<MpiOperation> operation,
                      const std::shared_ptr<MpiQueue>& queue, bool overlaps) {
  const Lock lock(mutex_);
  throw_if_failed();
  if (queue != nullptr) {
    queue->operations.push_back(operation);
    if (queue->operations.size() > 1) return;
  }
  try {
    operation->begin();
  } catch (const std::exception& error) {
    fail_here(operation->name() + ": " + error.what());
    throw_if_failed();
  }
  running_.push_back({std::move(operation), queue});
  if (overlaps) woken_.notify_one();
}

bool MpiEngine::poll() {
  if (++polls_ % kPollsPerWatch == 0) look_for_failures();
  if (failed_) return false;
  bool moved = false;
  const MpiOperation* moving = nullptr;
  try {
    for (size_t i = 0; i < running_.size();) {
      MpiOperation& operation = *running_[i].operation;
      moving = &operation;
      moved |= operation.advance();
      if (!operation.done()) {
        ++i;
        continue;
      }
      moved = true;
      if (MpiQueue* queue = running_[i].queue.get();
          queue != nullptr && (queue->operations.pop_front(), !queue->operations.empty())) {
        running_[i].operation = queue->operations.front();
        moving = running_[i].operation.get();
        running_[i].operation->begin();
        ++i;
      } else {
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  } catch (const std::exception& error) {
    fail_here(moving->name() + ": " + error.what());
  }
  return moved;
}

void MpiEngine::look_for_failures() {
  watch_.poll();
  if (!failed_ && !reconnected_ && watch_.first())
    fail_here(of_rank(watch_.first()->rank, watch_.first()->cause));
}

void MpiEngine::fail_here(std::string cause) {
  if (failed_) return;
  failed_ = std::move(cause);
  give_up_running();
}

void MpiEngine::give_up_running() {
  // The exception that leaves this rank frees the memory of all operations: together they get the
  // drain time of one.
  const double until = steady_seconds() + Transfers::kDrainSeconds;
  for (const Running& running : running_)
    running.operation->give_up(std::max(0.0, until - steady_seconds()));
  running_.clear();
}

void MpiEngine::throw_if_failed() const {
  if (failed_) throw CommError(*failed_);
}

void MpiEngine::check_time(const MpiOperation& operation, const MpiQueue* queue,
                           double asked_seconds) {
  const MpiOperation& late =
      !operation.begun() && queue != nullptr ? *queue->operations.front() : operation;
  if (steady_seconds() < std::max(asked_seconds, late.moved_seconds()) + timeout_seconds_) return;
  fail_here(fmt::format("{}: after {} s {} did not come", late.name(), timeout_seconds_,
                        late.missing_ranks()));
}

bool MpiEngine::ready(MpiOperation& operation, const MpiQueue* queue, double asked_seconds) {
  if (operation.done()) return true;
  const Lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;  // another thread is polling right now
  poll();
  if (operation.done()) return true;
  throw_if_failed();
  check_time(operation, queue, asked_seconds);
  throw_if_failed();
  return false;
}

void MpiEngine::wait(MpiOperation& operation, const MpiQueue* queue, double asked_seconds) {
  if (operation.done()) return;
  Patience patience(crowded_);
  Lock lock(mutex_);
  ++waiting_;
  for (int round = 1;; ++round) {
    poll();
    if (operation.done() || failed_) break;
    if (!crowded_ && round <= kRoundsAtOnce) continue;
    if (round % 64 == 0) check_time(operation, queue, asked_seconds);
    lock.unlock();
    patience();
    lock.lock();
  }
  --waiting_;
  if (!running_.empty()) woken_.notify_one();
  if (!operation.done()) throw_if_failed();
}

void MpiEngine::forget(MpiOperation& operation) noexcept {
  if (operation.done()) return;
  const double until = steady_seconds() + kForgetSeconds;
  Patience patience(true);
  Lock lock(mutex_);
  while (!operation.done() && !failed_ && steady_seconds() < until) {
    poll();
    lock.unlock();
    patience();
    lock.lock();
  }
  if (!operation.done()) fail_here(operation.name() + ": was abandoned before it was complete");
}

void MpiEngine::with_network(FunctionRef<void(MpiNetwork&)> f) {
  const Lock lock(mutex_);
  throw_if_failed();
  f(network_);
}

void MpiEngine::fail_all(std::string_view cause) {
  const Lock lock(mutex_);
  if (stopping_) return;
  look_for_failures();
  watch_.report(cause);
  fail_here(std::string(cause));
}

std::string MpiEngine::failure() {
  const Lock lock(mutex_);
  if (!stopping_) look_for_failures();
  return failed_.value_or("");
}

MpiFailure MpiEngine::settle(std::string_view cause) {
  fail_all(cause);
  return await_decision(cause);
}

MpiFailure MpiEngine::await_decision(std::string_view cause) {
  const double until = steady_seconds() + kSettleSeconds +
                       kSettleSecondsOfRank * std::min(network_.world().rank(), 32);
  Patience patience(true);
  Lock lock(mutex_);
  while ((!watch_.first() || !watch_.told()) && steady_seconds() < until) {
    watch_.poll();
    lock.unlock();
    patience();
    lock.lock();
  }
  if (!watch_.first()) watch_.proclaim(cause);
  return *watch_.first();
}

void MpiEngine::reconnect(double seconds) {
  await_decision(failure());
  {
    const Lock lock(mutex_);
    if (stopping_) throw_if_failed();
    reconnected_ = true;
    failed_.reset();
    timeout_seconds_ = seconds;
  }
  std::vector<int> all;
  for (int rank = 0; rank < network_.world().size(); ++rank) all.push_back(rank);
  const auto meeting =
      make_mpi_meeting(network_.spare(), all, kReconnectTag, "the end of a failed run");
  start(meeting, nullptr, false);
  wait(*meeting, nullptr, steady_seconds());
}

void MpiEngine::end_together() {
  std::vector<int> all;
  for (int rank = 0; rank < network_.world().size(); ++rank) all.push_back(rank);
  const auto meeting = make_mpi_meeting(network_.control(), all, kMeetingTag, "the end of the run");
  start(meeting, nullptr, false);
  for (;;) {
    {
      const Lock lock(mutex_);
      poll();
      if (meeting->done()) return;
      throw_if_failed();
    }
    std::this_thread::sleep_for(microseconds(100));
  }
}

void MpiEngine::serve() {
  Lock lock(mutex_);
  microseconds pause = kShortest;
  while (!stopping_) {
    if (waiting_ > 0 || running_.empty()) {
      if (waiting_ == 0) look_for_failures();
      woken_.wait_for(lock, kIdle);
      pause = kShortest;
      continue;
    }
    const bool moved = poll();
    pause = moved ? kShortest : std::min(2 * pause, kLongest);
    if (!moved) {
      woken_.wait_for(lock, pause);
      continue;
    }
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
}

}  // namespace viaduct
