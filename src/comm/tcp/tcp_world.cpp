#include "comm/tcp/tcp_world.h"

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <vector>

#include "base/error.h"
#include "comm/completed_operation.h"
#include "comm/failed_rank.h"
#include "comm/tcp/tcp_hub.h"
#include "comm/tcp/tcp_member.h"

namespace viaduct {
namespace {

/// A group of ranks, as its members know it.
struct TcpGroup {
  std::shared_ptr<TcpMember> member;
  std::vector<int> ranks;  // of the run
  std::string key;         // the same on all members, and of no other group
  int place = 0;           // of this rank
};

class TcpHostCall final : public HostCall {
 public:
  TcpHostCall(std::shared_ptr<const TcpGroup> group, std::shared_ptr<TcpMember::Call> call)
      : group_(std::move(group)), call_(std::move(call)) {}
  std::string wait() override {
    const auto name = [](const void* group, int place) {
      return static_cast<const TcpGroup*>(group)->ranks.at(static_cast<size_t>(place));
    };
    return group_->member->wait(*call_, name, group_.get());
  }

 private:
  std::shared_ptr<const TcpGroup> group_;
  std::shared_ptr<TcpMember::Call> call_;
};

class TcpHostGroup final : public HostGroup {
 public:
  TcpHostGroup(std::shared_ptr<const TcpGroup> group, std::string key)
      : HostGroup(group->place, static_cast<int>(group->ranks.size())),
        group_(std::move(group)),
        key_(std::move(key)) {}

 private:
  std::unique_ptr<HostCall> start(Request request) override {
    TcpMember::Call call{.group = key_,
                         .what = std::string(request.what),
                         .number = calls_++,
                         .place = rank(),
                         .size = size(),
                         .merge = request.merge,
                         .gets = request.to_all || rank() == 0,
                         .to_all = request.to_all};
    return std::make_unique<TcpHostCall>(group_,
                                         group_->member->say(std::move(call), request.mine));
  }

  std::shared_ptr<const TcpGroup> group_;
  const std::string key_;
  int64_t calls_ = 0;
};

class TcpCommunicator final : public Communicator {
 public:
  TcpCommunicator(std::shared_ptr<const TcpGroup> group, std::string name)
      : Communicator(std::move(name)),
        group_(std::move(group)),
        barriers_(group_, group_->key + " barrier") {}
  int rank() const override { return group_->place; }
  int size() const override { return static_cast<int>(group_->ranks.size()); }
  void fail_all(std::string_view cause) override {
    group_->member->fail(of_rank(group_->member->rank(), cause));
  }
  std::string failure() const override { return group_->member->failure(); }

 private:
  std::unique_ptr<CommOperation> start(const CommRequest& request) override {
    VIADUCT_CHECK(CommError, request.collective == Collective::barrier,
                  "{} over {}: processes that talk over TCP exchange no tensors of hosts",
                  choice_name(request.collective), name());
    barriers_.sum(0);
    return std::make_unique<CompletedOperation>();
  }
  std::shared_ptr<Communicator> split_members(const std::vector<int>& members,
                                              std::string name) override {
    auto part = std::make_shared<TcpGroup>();
    part->member = group_->member;
    // Members make their splits in one order.
    part->key = fmt::format("{}/{}:{}", group_->key, name, splits_[members]++);
    for (const int member : members) {
      part->key += fmt::format(",{}", member);
      part->ranks.push_back(group_->ranks[static_cast<size_t>(member)]);
    }
    part->place =
        static_cast<int>(std::find(members.begin(), members.end(), rank()) - members.begin());
    return std::make_shared<TcpCommunicator>(std::move(part), std::move(name));
  }
  std::shared_ptr<HostGroup> make_host_group() override {
    return std::make_shared<TcpHostGroup>(group_, group_->key);
  }

  std::shared_ptr<const TcpGroup> group_;
  TcpHostGroup barriers_;
  std::map<std::vector<int>, int64_t> splits_;  // so far, by members
};

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace

void run_tcp_rank(const TcpPlace& place, const WorldOptions& options, RankMain rank_main) {
  VIADUCT_CHECK(CommError, place.ranks > 1 && place.rank >= 0 && place.rank < place.ranks,
                "ranks over TCP: expected a rank of at least 2, got rank {} of {}", place.rank,
                place.ranks);
  std::optional<TcpHub> hub;  // outlives this rank's connection to it
  if (place.rank == 0) hub.emplace(place.meeting.port, place.ranks, options.timeout_seconds);
  const auto member =
      std::make_shared<TcpMember>(place.meeting, place.rank, place.ranks, options.timeout_seconds);
  auto group = std::make_shared<TcpGroup>();
  group->member = member;
  for (int rank = 0; rank < place.ranks; ++rank) group->ranks.push_back(rank);
  group->key = "world";
  group->place = place.rank;
  try {
    rank_main(std::make_shared<TcpCommunicator>(group, "world"));
  } catch (...) {
    // What is thrown after the failure of another rank is its consequence.
    const std::exception_ptr error = std::current_exception();
    if (const std::string cause = member->failure(); !cause.empty()) throw CommError(cause);
    member->fail(of_rank(place.rank, message_of(error)));
    rethrow_of_rank(place.rank, error);
  }
  member->end_together();
}

}  // namespace viaduct
