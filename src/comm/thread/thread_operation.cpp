#include "comm/thread/thread_operation.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include "base/cpu_pause.h"
#include "base/error.h"

namespace viaduct {
namespace {

using State = SharedOperation::State;

constexpr double kSpinSeconds = 50e-6;     // every thread has a core: sleeping costs about 5 µs
constexpr double kCrowdedSeconds = 10e-6;  // others need this core

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

ThreadOperation::ThreadOperation(std::shared_ptr<ThreadGroup> group, int rank, Lane& lane,
                                 int party, const CommRequest& request)
    : group_(std::move(group)),
      rank_(rank),
      lane_(lane),
      party_(party),
      request_(request),
      exceptions_(std::uncaught_exceptions()) {
  Lane::Posted posted = lane_.post(party_, request_);
  operation_ = std::move(posted.operation);
  if (posted.last) operation_->begin(operation_, party_);
}

ThreadOperation::~ThreadOperation() {
  if (over_) return;
  if (std::uncaught_exceptions() > exceptions_) {
    if (!leave()) drain();
    return;
  }
  try {
    wait();
  } catch (const std::exception& error) {
    group_->world().fail(group_->world_rank(rank_), error.what(), std::current_exception());
  }
}

bool ThreadOperation::ready() {
  switch (operation_->state()) {
    case State::done:
      over_ = true;
      return true;
    case State::running:
      return false;
    case State::mismatched:
      give_up(operation_->error());
    case State::collecting:
    case State::left:
      if (group_->world().failed() && leave()) give_up(group_->world().cause());
      return false;
  }
  return false;
}

void ThreadOperation::wait() {
  if (operation_->state() == State::done) {
    over_ = true;
    return;
  }
  ThreadWorld& world = group_->world();
  operation_->begin_wait();
  const double begin = now();
  for (;;) {
    const uint32_t events = world.events();
    const State state = operation_->state();
    switch (state) {
      case State::done:
        over_ = true;
        return;
      case State::mismatched:
        give_up(operation_->error());
      case State::running:
        operation_->help(party_);
        break;
      case State::collecting:
      case State::left:
        check_others(begin);
        break;
    }
    pause_until_change(state, events, now(), begin + world.timeout_seconds());
  }
}

void ThreadOperation::pause_until_change(State seen, uint32_t events, double pause_since,
                                         double limit) {
  ThreadWorld& world = group_->world();
  const auto changed = [&] { return operation_->state() != seen || world.events() != events; };
  const double spin = world.crowded() ? kCrowdedSeconds : kSpinSeconds;
  do {
    for (int i = 0; i < (world.crowded() ? 1 : 16); ++i) {
      if (changed()) return;
      if (world.crowded())
        std::this_thread::yield();
      else
        cpu_pause();
    }
  } while (now() - pause_since < spin);
  const double rest = std::max(1e-6, limit - now());
  world.bell(group_->world_rank(rank_)).sleep(seen == State::running ? 1.0 : rest, changed);
}

void ThreadOperation::check_others(double begin) {
  ThreadWorld& world = group_->world();
  const std::vector<int> missing = lane_.missing(*operation_);
  const bool hopeless = std::any_of(missing.begin(), missing.end(), [&](int party) {
    return world.has_ended(operation_->member(party));
  });
  // In this order: a rank that failed ends afterwards.
  if (world.failed()) {
    if (leave()) give_up(world.cause());
  } else if (hopeless) {
    if (leave()) give_up(names_of_missing() + " ended without it");
  } else if (now() - begin >= world.timeout_seconds()) {
    if (leave())
      give_up(
          fmt::format("after {} s {} did not come", world.timeout_seconds(), names_of_missing()));
  }
}

void ThreadOperation::give_up(const std::string& why) {
  over_ = true;
  throw CommError(title() + ": " + why);
}

bool ThreadOperation::leave() {
  over_ = lane_.leave(*operation_);
  return over_;
}

void ThreadOperation::drain() {
  while (operation_->state() == State::collecting || operation_->state() == State::running) {
    const State state = operation_->state();
    if (state == State::running) operation_->help(party_);
    pause_until_change(state, group_->world().events(), now(), now() + 1);
  }
  over_ = true;
}

std::string ThreadOperation::title() const {
  int64_t bytes = 0;
  for (const Tensor* tensor : {&request_.in, &request_.out})
    if (tensor->defined()) bytes = std::max(bytes, tensor->bytes());
  return fmt::format("{} over {} ({} ranks, {} bytes) on rank {}",
                     collective_name(request_.collective), group_->name(), group_->size(), bytes,
                     rank_);
}

std::string ThreadOperation::names_of_missing() const {
  std::string names;
  for (const int party : lane_.missing(*operation_)) {
    const bool message = request_.peer >= 0 && request_.collective != Collective::broadcast;
    const int rank = message ? request_.peer : party;
    names += fmt::format("{}rank {}", names.empty() ? "" : ", ", rank);
    if (group_->world_rank(rank) != rank)
      names += fmt::format(" (world rank {})", group_->world_rank(rank));
  }
  return names.empty() ? "a rank that has left it" : names;
}

}  // namespace viaduct
