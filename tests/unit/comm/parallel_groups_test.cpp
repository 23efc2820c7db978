// The communicators of a run follow from the mesh, by grid and axes: checks their members on
// communicating ranks, with experts and without.

#include "comm/parallel_groups.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/function_ref.h"
#include "comm/completed_operation.h"
#include "comm/host_group.h"
#include "comm/world.h"

namespace viaduct {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using enum Axis;

void on_ranks(const Mesh& mesh, FunctionRef<void(const ParallelGroups&)> body) {
  run_thread_ranks(mesh.ranks(), {.timeout_seconds = 60}, [&](std::shared_ptr<Communicator> world) {
    body(ParallelGroups(mesh, std::move(world)));
  });
}

// tp 2 · ep 2 · expert dp 2 beside tp 2 · cp 2 · dp 2.
TEST(ParallelGroups, EachGridHasItsOwn) {
  on_ranks(Mesh::make({.ranks = 8, .tp = 2, .cp = 2, .ep = 2}), [](const ParallelGroups& groups) {
    const int rank = groups.world().rank();
    const auto sum_over = [&](Grid grid, std::initializer_list<Axis> axes) {
      return groups.of(grid, axes)->host().sum(rank);
    };
    const int column = rank % 2, low = rank % 4, quarter = rank / 2 % 2, half = rank / 4;
    // Dense: ranks with the same place in tp. Experts: ep takes the ranks that are cp ranks here.
    EXPECT_EQ(sum_over(Grid::attention, {dp, cp}), 12 + 4 * column);
    EXPECT_EQ(sum_over(Grid::attention, {cp}), 2 * (column + 4 * half) + 2);
    EXPECT_EQ(sum_over(Grid::expert, {ep}), 2 * (column + 4 * half) + 2);
    EXPECT_EQ(sum_over(Grid::expert, {dp}), 2 * low + 4);
    EXPECT_EQ(sum_over(Grid::expert, {ep, tp}), 6 + 16 * half);
    EXPECT_EQ(groups.of(Grid::expert, {dp_inner})->rank(), half);
    EXPECT_EQ(groups.of(Grid::expert, {ep})->rank(), quarter);
    EXPECT_EQ(&groups.dp_cp(), groups.of(Grid::attention, {cp, dp}).get());
  });
}

TEST(ParallelGroups, WithoutExpertsTheirGroupsAreAnError) {
  on_ranks(Mesh({2, 1, 1, 1, 1}), [](const ParallelGroups& groups) {
    EXPECT_EQ(groups.tp().size(), 2);
    EXPECT_THAT([&] { groups.of(Grid::expert, {dp_inner}); },
                ThrowsMessage<CommError>(HasSubstr("this run has no groups expert_dp.inner")));
    EXPECT_THAT([&] { groups.of(Grid::attention, {ep}); },
                ThrowsMessage<CommError>(HasSubstr("no groups along ep on the attention grid")));
  });
}

/// What a rank opens: connections that both ends, or all ranks of a group, must make together.
struct Opened {
  int64_t expected = 0, groups = 0;
  std::vector<std::pair<int, int>> channels;  // between ranks of the run, this one first
};

class CountingCommunicator final : public Communicator {
 public:
  CountingCommunicator(Opened& opened, int rank, std::vector<int> ranks, std::string name)
      : Communicator(std::move(name)), opened_(opened), rank_(rank), ranks_(std::move(ranks)) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  void fail_all(std::string_view) override {}
  void expect_connections(FunctionRef<int64_t()> most) override { opened_.expected = most(); }
  void open_channels(const std::vector<int>& peers, bool message_groups) override {
    if (message_groups) opened_.groups += 2;
    for (const int peer : peers)
      opened_.channels.emplace_back(ranks_[static_cast<size_t>(rank_)],
                                    ranks_[static_cast<size_t>(peer)]);
  }

 private:
  std::unique_ptr<CommOperation> start(const CommRequest&) override {
    return std::make_unique<CompletedOperation>();
  }
  std::shared_ptr<Communicator> split_members(const std::vector<int>& members,
                                              std::string name) override {
    ++opened_.groups;
    const auto me = std::find(members.begin(), members.end(), rank_) - members.begin();
    return std::make_shared<CountingCommunicator>(opened_, static_cast<int>(me), members,
                                                  std::move(name));
  }
  std::shared_ptr<HostGroup> make_host_group() override {
    return make_stated_host_group(rank_, size());
  }

  Opened& opened_;
  int rank_;
  std::vector<int> ranks_;
};

std::vector<Opened> opened_by_ranks(const Mesh& mesh) {
  std::vector<Opened> all(static_cast<size_t>(mesh.ranks()));
  std::vector<int> ranks(all.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  for (const int rank : ranks) {
    Opened& opened = all[static_cast<size_t>(rank)];
    const ParallelGroups groups(
        mesh, std::make_shared<CountingCommunicator>(opened, rank, ranks, "world"));
  }
  return all;
}

/// Stages of an encoder with another tensor size than the decoder's are beside several ranks.
TEST(ParallelGroups, ChannelsOfStagesHaveBothEndsAndAreNoMoreThanAnnounced) {
  struct World {
    int etp, epp, tp, pp;
  };
  for (const World& w : {World{1, 0, 1, 2}, World{1, 0, 2, 4}, World{1, 1, 1, 2}, World{2, 2, 2, 2},
                         World{1, 1, 4, 2}, World{4, 2, 1, 3}}) {
    SCOPED_TRACE(testing::Message()
                 << w.etp << " * " << w.epp << " before " << w.tp << " * " << w.pp);
    const Mesh whole = Mesh::make({.ranks = w.etp * w.epp + w.tp * w.pp,
                                   .tp = w.tp,
                                   .pp = w.epp + w.pp,
                                   .front_stages = w.epp,
                                   .front_tp = w.etp});
    const int last = w.epp + w.pp - 1;
    GroupSizes parts = whole.parts();
    if (w.epp > 0) parts.embedding_stages = {w.epp, last};  // of a tied head
    const Mesh mesh = whole.with(parts);
    std::set<std::pair<int, int>> channels;
    for (const Opened& opened : opened_by_ranks(mesh)) {
      EXPECT_LE(opened.groups + 4 * std::ssize(opened.channels), opened.expected);
      channels.insert(opened.channels.begin(), opened.channels.end());
    }
    for (const auto& [from, to] : channels)
      EXPECT_TRUE(channels.contains({to, from})) << from << " to " << to;
    // The next stage, and from the last to the first chunk of the next virtual stage.
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      const int stage = mesh.coordinate({rank}, Axis::pp).value;
      for (const int other : {stage + 1, stage == last ? w.epp : last + 1}) {
        if (other > last || other == stage) continue;
        for (const GlobalRank to : mesh.places_in_stage({rank}, other))
          EXPECT_TRUE(channels.contains({rank, to.value})) << rank << " to " << to.value;
      }
    }
  }
}

}  // namespace
}  // namespace viaduct
