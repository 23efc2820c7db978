#include "comm/thread/thread_operation.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "base/clock.h"
#include "base/cpu_pause.h"
#include "base/error.h"

namespace viaduct {
namespace {

using State = SharedOperation::State;

// A waiting thread polls before it sleeps (sleeping costs about 5 µs). With a core for every thread
// it spins for kSpinSeconds. Oversubscribed, it spins for kAloneSeconds, yields until
// kCrowdedSeconds, then sleeps.
constexpr double kSpinSeconds = 50e-6, kCrowdedSeconds = 20e-6, kAloneSeconds = 5e-6;

/// Marks a rank as waiting during its lifetime.
class Awaiting {
 public:
  Awaiting(ThreadWorld& world, int rank, const SharedOperation* operation)
      : world_(world), rank_(rank) {
    world_.await(rank_, operation);
  }
  ~Awaiting() { world_.await(rank_, nullptr); }
  Awaiting(const Awaiting&) = delete;
  Awaiting& operator=(const Awaiting&) = delete;

 private:
  ThreadWorld& world_;
  int rank_;
};

}  // namespace

ThreadOperation::ThreadOperation(std::shared_ptr<const ThreadMember> member, Lane& lane, int party,
                                 const CommRequest& request)
    : member_(std::move(member)),
      lane_(lane),
      party_(party),
      request_(request),
      exceptions_(std::uncaught_exceptions()) {
  const Lane::Posted posted = lane_.post(party_, Ask(request_));
  operation_ = posted.operation;
  if (posted.last) operation_->begin(party_);
}

ThreadOperation::~ThreadOperation() {
  if (!over_) finish_or_leave();
  operation_->release();
}

void ThreadOperation::finish_or_leave() {
  if (std::uncaught_exceptions() > exceptions_) {
    if (!leave()) drain();
    return;
  }
  try {
    wait();
  } catch (const std::exception& error) {
    world().fail(world_rank(), error.what(), std::current_exception());
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
      if (world().failed() && leave()) give_up(world().cause());
      return false;
  }
  return false;
}

void ThreadOperation::wait() {
  if (operation_->state() == State::done) {
    over_ = true;
    return;
  }
  const Awaiting awaiting(world(), world_rank(), operation_);
  double time = steady_seconds();
  const double limit = time + world().timeout_seconds();
  for (;;) {
    const uint32_t events = world().events();
    const State state = operation_->state();
    switch (state) {
      case State::done:
        over_ = true;
        return;
      case State::mismatched:
        give_up(operation_->error());
      case State::running:
        operation_->help(party_);
        time = steady_seconds();
        break;
      case State::collecting:
      case State::left:
        if (events != 0 || time >= limit) check_others(time >= limit);
        break;
    }
    time = pause_until_change(state, events, time, limit);
  }
}

// A switch between ranks that share a core costs about as much as a small operation. So the last
// rank of a core to arrive does not yield to the others that wait for the same operation, but
// continues with its next operation first: that saves one switch per operation.
double ThreadOperation::pause_until_change(State seen, uint32_t events, double begin,
                                           double limit) {
  const auto changed = [&] { return operation_->state() != seen || world().events() != events; };
  const bool crowded = world().crowded();
  double time = begin;
  for (; time - begin < (crowded ? kCrowdedSeconds : kSpinSeconds); time = steady_seconds()) {
    const bool spins =
        (!crowded || time - begin < kAloneSeconds) && world().alone_on_core(world_rank());
    for (int i = 0; i < (spins ? 64 : 1); ++i) {
      if (changed()) return time;
      if (spins)
        cpu_pause();
      else
        std::this_thread::yield();
    }
  }
  if (seen == State::running) limit = time + 1;
  world().bell(world_rank()).sleep(std::max(1e-6, limit - time), changed);
  return steady_seconds();
}

void ThreadOperation::check_others(bool late) {
  const std::vector<int> missing = lane_.missing(*operation_);
  std::vector<int> ended;
  for (const int party : missing)
    if (world().has_ended(operation_->member(party))) ended.push_back(party);
  // In this order: a rank that failed ends afterwards.
  if (world().failed()) {
    if (leave()) give_up(world().cause());
  } else if (!ended.empty()) {
    if (leave()) give_up(names_of(ended) + " ended without it");
  } else if (late && leave()) {
    give_up(fmt::format("after {} s {} did not come", world().timeout_seconds(),
                        missing.empty() ? "a rank that has left it" : names_of(missing)));
  }
}

void ThreadOperation::give_up(const std::string& why) {
  over_ = true;
  throw CommError(title() + ": " + why);
}

bool ThreadOperation::leave() {
  over_ = operation_->leave();
  return over_;
}

void ThreadOperation::drain() {
  while (operation_->state() == State::collecting || operation_->state() == State::running) {
    const State state = operation_->state();
    if (state == State::running) operation_->help(party_);
    const double time = steady_seconds();
    pause_until_change(state, world().events(), time, time + 1);
  }
  over_ = true;
}

std::string ThreadOperation::title() const {
  int64_t bytes = 0;
  for (const Tensor* tensor : {&request_.in, &request_.out})
    if (tensor->defined()) bytes = std::max(bytes, tensor->bytes());
  return fmt::format("{} over {} ({} ranks, {} bytes) on rank {}", choice_name(request_.collective),
                     member_->group->name(), member_->group->size(), bytes, member_->rank);
}

std::string ThreadOperation::names_of(const std::vector<int>& parties) const {
  const bool message = request_.peer >= 0 && request_.collective != Collective::broadcast;
  std::string names;
  for (const int party : parties) {
    const int rank = message ? request_.peer : party;
    names += fmt::format("{}rank {}", names.empty() ? "" : ", ", rank);
    if (member_->group->world_rank(rank) != rank)
      names += fmt::format(" (world rank {})", member_->group->world_rank(rank));
  }
  return names;
}

}  // namespace viaduct
