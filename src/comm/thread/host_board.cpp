#include "comm/thread/host_board.h"

#include <fmt/format.h>

#include <thread>

#include "base/clock.h"
#include "base/error.h"

namespace viaduct {
namespace {

// Number of yields before a rank sleeps; others may need its core meanwhile.
constexpr int kYields = 32;

class BoardCall final : public HostCall {
 public:
  BoardCall(std::shared_ptr<void> owner, HostBoard& board, int rank, bool gets,
            std::shared_ptr<HostBoard::Call> call)
      : owner_(std::move(owner)), board_(board), rank_(rank), gets_(gets), call_(std::move(call)) {}

  std::string wait() override {
    // A rank that gets no result need not wait.
    if (!gets_) return "";
    board_.wait(rank_, *call_);
    return call_->merged;
  }

 private:
  std::shared_ptr<void> owner_;
  HostBoard& board_;
  const int rank_;
  const bool gets_;
  std::shared_ptr<HostBoard::Call> call_;
};

class ThreadHostGroup final : public HostGroup {
 public:
  ThreadHostGroup(std::shared_ptr<void> owner, HostBoard& board, int rank, int size)
      : HostGroup(rank, size), owner_(std::move(owner)), board_(board) {}

 private:
  std::unique_ptr<HostCall> start(Request request) override {
    const bool gets = request.to_all || rank() == 0;
    auto call = board_.leave(rank(), request.what, std::move(request.mine), request.merge);
    return std::make_unique<BoardCall>(owner_, board_, rank(), gets, std::move(call));
  }

  std::shared_ptr<void> owner_;
  HostBoard& board_;
};

}  // namespace

HostBoard::HostBoard(ThreadWorld& world, std::vector<int> members, std::string name)
    : world_(world),
      members_(std::move(members)),
      name_(std::move(name)),
      next_(members_.size(), 0) {}

std::shared_ptr<HostBoard::Call> HostBoard::leave(int rank, std::string_view what, std::string text,
                                                  HostGroup::Merge merge) {
  std::shared_ptr<Call> call;
  std::vector<std::string> said;
  {
    const std::lock_guard guard(mutex_);
    const int64_t number = next_[static_cast<size_t>(rank)]++;
    std::shared_ptr<Call>& place = calls_[number];
    if (place == nullptr) {
      place = std::make_shared<Call>();
      place->what = what, place->number = number;
      place->said.resize(members_.size());
      place->came.resize(members_.size());
    }
    call = place;
    if (call->what != what && call->error.empty())
      call->error = fmt::format("one rank calls {}, another {}", call->what, what);
    call->said[static_cast<size_t>(rank)] = std::move(text);
    call->came[static_cast<size_t>(rank)] = true;
    if (++call->here < members_.size()) return call;
    calls_.erase(number);
    said = std::move(call->said);
  }
  try {
    if (call->error.empty()) call->merged = merge_along_tree(std::move(said), merge);
  } catch (const std::exception& error) {
    call->error = error.what();
  }
  call->done.store(true);
  for (const int member : members_) world_.bell(member).ring();
  return call;
}

void HostBoard::wait(int rank, Call& call) {
  const int me = members_[static_cast<size_t>(rank)];
  const double limit = steady_seconds() + world_.timeout_seconds();
  for (int round = 0; !call.done.load(); ++round) {
    const uint32_t events = world_.events();
    const double now = steady_seconds();
    if (events != 0 || now >= limit) check_others(rank, call, now >= limit);
    if (round < kYields) {
      std::this_thread::yield();
      continue;
    }
    world_.bell(me).sleep(std::max(1e-6, limit - now),
                          [&] { return call.done.load() || world_.events() != events; });
  }
  if (!call.error.empty()) fail<CommError>("{}: {}", title(rank, call), call.error);
}

void HostBoard::check_others(int rank, Call& call, bool late) {
  std::vector<int> missing, ended;
  {
    const std::lock_guard guard(mutex_);
    if (call.here == members_.size()) return;
    for (size_t r = 0; r < members_.size(); ++r) {
      if (call.came[r]) continue;
      missing.push_back(static_cast<int>(r));
      if (world_.has_ended(members_[r])) ended.push_back(static_cast<int>(r));
    }
  }
  // In this order: a rank that failed ends afterwards.
  if (world_.failed()) fail<CommError>("{}: {}", title(rank, call), world_.cause());
  if (!ended.empty())
    fail<CommError>("{}: {} ended without it", title(rank, call), names_of(ended));
  if (late) {
    fail<CommError>("{}: after {} s {} did not come", title(rank, call), world_.timeout_seconds(),
                    names_of(missing));
  }
}

std::string HostBoard::title(int rank, const Call& call) const {
  return fmt::format("{} of the hosts of {} ({} ranks) on rank {}", call.what, name_,
                     members_.size(), rank);
}

std::string HostBoard::names_of(const std::vector<int>& ranks) const {
  std::string names;
  for (const int rank : ranks) {
    names += fmt::format("{}rank {}", names.empty() ? "" : ", ", rank);
    const int in_world = members_[static_cast<size_t>(rank)];
    if (in_world != rank) names += fmt::format(" (world rank {})", in_world);
  }
  return names;
}

std::shared_ptr<HostGroup> make_thread_host_group(std::shared_ptr<void> owner, HostBoard& board,
                                                  int rank, int size) {
  return std::make_shared<ThreadHostGroup>(std::move(owner), board, rank, size);
}

}  // namespace viaduct
