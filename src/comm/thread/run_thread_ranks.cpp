// Ranks as threads: the world of a run, and each rank's communicators.

#include <map>
#include <system_error>

#include "base/error.h"
#include "base/thread.h"
#include "comm/thread/thread_operation.h"
#include "comm/world.h"

namespace viaduct {
namespace {

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank)
      : Communicator(group->name()),
        member_(std::make_shared<ThreadMember>(ThreadMember{group, rank})),
        group_(std::move(group)),
        rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  void fail_all(std::string_view cause) override {
    group_->world().fail(group_->world_rank(rank_), cause);
  }
  std::string failure() const override {
    return group_->world().failed() ? group_->world().cause() : std::string();
  }
  std::shared_ptr<Communicator> reconnect(double seconds) override {
    const auto again = std::make_shared<ThreadCommunicator>(group_->again(seconds), rank_);
    again->barrier();
    return again;
  }

 private:
  std::unique_ptr<CommOperation> start(const CommRequest& request) override {
    check(request);
    const Collective c = request.collective;
    if (c == Collective::send)
      return operation(group_->channel(rank_, request.peer, request.flow), 0, request);
    if (c == Collective::receive)
      return operation(group_->channel(request.peer, rank_, request.flow), 1, request);
    return operation(group_->collectives(), rank_, request);
  }
  std::shared_ptr<Communicator> split_members(const std::vector<int>& members,
                                              std::string name) override {
    int rank = 0;
    while (members[static_cast<size_t>(rank)] != rank_) ++rank;
    const int64_t time = splits_[members]++;
    return std::make_shared<ThreadCommunicator>(group_->split(members, time, name), rank);
  }

  std::shared_ptr<HostGroup> make_host_group() override {
    return make_thread_host_group(group_, group_->hosts(), rank_, size());
  }

  std::unique_ptr<CommOperation> operation(Lane& lane, int party, const CommRequest& request) {
    return std::make_unique<ThreadOperation>(member_, lane, party, request);
  }
  void check(const CommRequest& request) const {
    if (group_->world().failed())
      fail<CommError>("{} over {} on rank {}: {}", choice_name(request.collective), name(), rank_,
                      group_->world().cause());
    const bool root_fits = request.peer >= 0 && request.peer < size();
    VIADUCT_CHECK(CommError, request.collective != Collective::broadcast || root_fits,
                  "broadcast over {} ({} ranks): there is no rank {}", name(), size(),
                  request.peer);
  }

  std::shared_ptr<const ThreadMember> member_;
  std::shared_ptr<ThreadGroup> group_;
  int rank_;
  std::map<std::vector<int>, int64_t> splits_;  // number of splits by members
};

void run_rank(ThreadWorld& world, const std::shared_ptr<ThreadGroup>& group, int rank,
              RankMain rank_main) {
  try {
    rank_main(std::make_shared<ThreadCommunicator>(group, rank));
  } catch (const std::exception& error) {
    world.fail(rank, error.what(), std::current_exception());
  } catch (...) {
    world.fail(rank, "an exception of unknown type", std::current_exception());
  }
  group->end(rank);
}

}  // namespace

void run_thread_ranks(int ranks, const WorldOptions& options, RankMain rank_main) {
  VIADUCT_CHECK(CommError, ranks >= 1, "ranks as threads: expected at least 1, got {}", ranks);
  if (ranks == 1) return rank_main(make_self_communicator("world"));
  const auto world = std::make_shared<ThreadWorld>(ranks, options);
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank) members.push_back(rank);
  const auto group = std::make_shared<ThreadGroup>(world, members, "world");
  std::vector<Thread> threads;
  try {
    for (int rank = 1; rank < ranks; ++rank)
      threads.emplace_back([&, rank] { run_rank(*world, group, rank, rank_main); });
    run_rank(*world, group, 0, rank_main);
  } catch (const std::system_error& error) {  // no more threads: stop the running ranks
    world->fail(static_cast<int>(threads.size()) + 1, error.what());
  }
  for (Thread& thread : threads) thread.join();
  world->rethrow();
}

}  // namespace viaduct
