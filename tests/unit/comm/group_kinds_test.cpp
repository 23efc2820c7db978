// Groups of each kind: tables derived by hand from the rules of the rank order, and the rules
// themselves by enumeration over many sizes.

#include "comm/group_kinds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"

namespace viaduct {
namespace {

using Groups = std::vector<std::vector<int>>;

std::vector<int> values(const std::vector<GlobalRank>& ranks) {
  std::vector<int> list;
  for (const GlobalRank rank : ranks) list.push_back(rank.value);
  return list;
}

Groups groups_of(const Mesh& mesh, GroupKind kind) {
  Groups groups;
  for (const auto& group : all_groups(mesh, kind)) groups.push_back(values(group));
  return groups;
}

std::vector<GroupKind> all_kinds() {
  std::vector<GroupKind> kinds;
  for (int i = 0; i < kGroupKinds; ++i) kinds.push_back(static_cast<GroupKind>(i));
  return kinds;
}

// Megatron's example: 16 ranks, tp 2, pp 4.
TEST(GroupKinds, SixteenRanksByHand) {
  const Mesh mesh = Mesh::make({.ranks = 16, .tp = 2, .pp = 4});
  EXPECT_EQ(groups_of(mesh, GroupKind::tp),
            (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::dp),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::pp),
            (Groups{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::model),
            (Groups{{0, 1, 4, 5, 8, 9, 12, 13}, {2, 3, 6, 7, 10, 11, 14, 15}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::embedding),
            (Groups{{0, 12}, {1, 13}, {2, 14}, {3, 15}, {4}, {5}, {6}, {7}, {8}, {9}, {10}, {11}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::statistics).size(), 1u);
}

// One stage with tensor rank 1 in front of one with 2, two data ranks: Megatron's example of an
// encoder, {0, 1}. A group along the stages has all ranks of a replica.
TEST(GroupKinds, ASplitMeshByHand) {
  const Mesh mesh = Mesh::make({.ranks = 6, .tp = 2, .pp = 2, .front_stages = 1, .front_tp = 1});
  ASSERT_TRUE(mesh.is_split());
  EXPECT_EQ(mesh.size(Axis::pp), 2);
  EXPECT_EQ(mesh.size(Axis::dp), 2);
  EXPECT_EQ(groups_of(mesh, GroupKind::tp), (Groups{{0}, {1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::dp), (Groups{{0, 1}, {2, 4}, {3, 5}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::pp), (Groups{{0, 2, 3}, {1, 4, 5}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::tp_split), (Groups{{0}, {1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::statistics), (Groups{{0, 1, 2, 3, 4, 5}}));
  EXPECT_EQ(mesh.coordinate({5}, Axis::pp).value, 1);
  EXPECT_EQ(values(mesh.at_each_stage({5})), (std::vector<int>{1, 5}));
  EXPECT_EQ(values(mesh.places_in_stage({1}, 1)), (std::vector<int>{4, 5}));
}

// By a formula of the test: a rank's number from its coordinates on its side of the split.
TEST(GroupKinds, SplitMeshesByFormula) {
  struct World {
    int etp, epp, tp, pp, cp, dp;
  };
  for (const World& w : {World{1, 2, 2, 2, 1, 2}, World{2, 1, 1, 2, 2, 2}, World{2, 2, 4, 1, 2, 1},
                         World{4, 1, 2, 2, 1, 3}}) {
    SCOPED_TRACE(w.etp * 100 + w.tp);
    const int data = w.cp * w.dp, front = data * w.etp * w.epp;
    const auto number = [&](int stage, int tp, int cp, int dp) {
      return stage < w.epp ? tp + w.etp * (cp + w.cp * (dp + w.dp * stage))
                           : front + tp + w.tp * (cp + w.cp * (dp + w.dp * (stage - w.epp)));
    };
    const Mesh whole = Mesh::make({.ranks = front + data * w.tp * w.pp,
                                   .tp = w.tp,
                                   .cp = w.cp,
                                   .pp = w.epp + w.pp,
                                   .front_stages = w.epp,
                                   .front_tp = w.etp});
    // Runs say which stages hold the token table: the decoder's first and last.
    GroupSizes parts_of_mesh = whole.parts();
    parts_of_mesh.embedding_stages = {w.epp};
    if (w.pp > 1) parts_of_mesh.embedding_stages.push_back(w.epp + w.pp - 1);
    const Mesh mesh = whole.with(parts_of_mesh);
    Groups replicas(static_cast<size_t>(data)), tensor, split;
    const int parts = std::max(1, std::max(w.etp, w.tp) / std::min(w.etp, w.tp));
    for (int stage = 0; stage < w.epp + w.pp; ++stage) {
      const int own = stage < w.epp ? w.etp : w.tp, other = stage < w.epp ? w.tp : w.etp;
      const int run = own > other ? parts : 1;
      for (int place = 0; place < data; ++place) {
        Groups::value_type all;
        for (int tp = 0; tp < own; ++tp) {
          all.push_back(number(stage, tp, place % w.cp, place / w.cp));
          if (tp % run == 0) split.emplace_back();
          split.back().push_back(all.back());
          replicas[static_cast<size_t>(place)].push_back(all.back());
          std::vector<int> beyond;
          const int across = stage < w.epp ? w.epp : 0;  // a stage beyond the split
          for (int i = 0; i < std::max(1, other / own); ++i)
            beyond.push_back(number(across, tp * other / own + i, place % w.cp, place / w.cp));
          EXPECT_EQ(values(mesh.places_in_stage({all.back()}, across)), beyond);
        }
        tensor.push_back(std::move(all));
      }
    }
    EXPECT_EQ(groups_of(mesh, GroupKind::tp), tensor);
    EXPECT_EQ(groups_of(mesh, GroupKind::tp_split), split);
    EXPECT_EQ(groups_of(mesh, GroupKind::pp), replicas);
    for (const GroupKind kind : communicator_kinds(mesh)) {
      std::vector<int> seen;
      for (const auto& group : groups_of(mesh, kind)) {
        seen.insert(seen.end(), group.begin(), group.end());
        for (const int rank : group)
          EXPECT_EQ(values(group_ranks(mesh, kind, {rank})), group) << group_kind_name(kind);
      }
      EXPECT_EQ(std::ssize(seen), mesh.ranks()) << group_kind_name(kind);
    }
  }
}

// A table that stages of both sides hold: one instance of the optimizer sums what one rank has on
// the side with fewer tensor ranks, since shards are cut in another way beyond the split. By a
// formula of the test.
TEST(GroupKinds, ATableOnBothSidesOfASplit) {
  struct World {
    int etp, epp, tp, pp, dp;
  };
  for (const World& w : {World{1, 1, 2, 1, 2}, World{2, 2, 1, 2, 2}, World{4, 1, 2, 2, 4}}) {
    for (const int instances : {1, 2, w.dp}) {
      SCOPED_TRACE(testing::Message() << w.etp << " and " << w.tp << ", " << instances);
      const int front = w.dp * w.etp * w.epp, last = w.epp + w.pp - 1;
      GroupSizes sizes{.optimizer_instances = instances, .embedding_stages = {0}};
      for (const int stage : {w.epp, last})
        if (stage != sizes.embedding_stages.back()) sizes.embedding_stages.push_back(stage);
      const Mesh mesh = Mesh::make({.ranks = front + w.dp * w.tp * w.pp,
                                    .tp = w.tp,
                                    .pp = w.epp + w.pp,
                                    .front_stages = w.epp,
                                    .front_tp = w.etp},
                                   "tp-cp-ep-dp-pp", sizes);
      const int fewer = std::min(w.etp, w.tp), each = w.dp / instances;
      for (int rank = 0; rank < mesh.ranks(); ++rank) {
        const bool in_front = rank < front;
        const int own = in_front ? w.etp : w.tp, place = in_front ? rank : rank - front,
                  stage = place / (own * w.dp) + (in_front ? 0 : w.epp), data = place / own % w.dp,
                  rows = place % own / (own / fewer);
        std::vector<int> expected;
        for (const int held : sizes.embedding_stages) {
          const int there = held < w.epp ? w.etp : w.tp,
                    begin = held < w.epp ? 0 : front + (held - w.epp) * w.tp * w.dp;
          for (int i = data / each * each; i < data / each * each + each; ++i)
            for (int t = rows * (there / fewer); t < (rows + 1) * (there / fewer); ++t)
              expected.push_back(begin + i * there + t);
        }
        if (std::ranges::count(sizes.embedding_stages, stage) == 0) expected = {rank};
        EXPECT_EQ(values(group_ranks(mesh, GroupKind::embedding, {rank})), expected);
      }
    }
  }
}

TEST(GroupKinds, ContextAndInstancesByHand) {
  const Mesh mesh = Mesh::make({.ranks = 16, .tp = 2, .cp = 2, .pp = 2}, "tp-cp-ep-dp-pp",
                               {.optimizer_instances = 2});
  EXPECT_EQ(groups_of(mesh, GroupKind::cp),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::dp),
            (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::dp_cp),
            (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::dp_cp_inner),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::dp_cp_outer),
            (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::tp_cp),
            (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::tp_dp_cp),
            (Groups{{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::statistics),
            (Groups{{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}}));
}

TEST(GroupKinds, StagesBeforeDataRanksByHand) {
  const Mesh mesh = Mesh::make({.ranks = 8, .tp = 2, .pp = 2}, "tp-cp-ep-pp-dp");
  EXPECT_EQ(groups_of(mesh, GroupKind::pp), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::dp), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

TEST(GroupKinds, ExpertsByHand) {
  const Mesh mesh = Mesh::make({.ranks = 16, .tp = 2, .pp = 2, .ep = 2, .etp = 2}, "tp-cp-ep-dp-pp",
                               {.optimizer_instances = 2});
  EXPECT_EQ(groups_of(mesh, GroupKind::ep),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::expert_tp_ep),
            (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::expert_tp_ep_pp),
            (Groups{{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::expert_dp),
            (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::expert_dp_inner).size(), 16u) << "one rank an instance";
  EXPECT_EQ(groups_of(mesh, GroupKind::expert_dp_outer), groups_of(mesh, GroupKind::expert_dp));
}

TEST(GroupKinds, DomainsOfExpertsByHand) {
  const Mesh mesh = Mesh::make({.ranks = 16, .tp = 2, .pp = 2, .ep = 4, .etp = 2}, "tp-cp-ep-dp-pp",
                               {.expert_domains = 2});
  EXPECT_EQ(groups_of(mesh, GroupKind::expert_tp_ep),
            (Groups{{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::expert_tp_ep_inner),
            (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}));
  EXPECT_EQ(groups_of(mesh, GroupKind::ep_outer),
            (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}}));
  const auto has = [](const Mesh& of) {
    const auto kinds = communicator_kinds(of);
    return std::find(kinds.begin(), kinds.end(), GroupKind::ep_outer) != kinds.end();
  };
  EXPECT_TRUE(has(mesh));
  EXPECT_FALSE(has(mesh.with({}))) << "tokens are not sent by domain";
  EXPECT_THROW(mesh.with({.expert_domains = 3}), ConfigError);
}

// The rule: a group holds the ranks that agree in every axis that is not named. Ranks are numbered
// by counting, the first axis of the order fastest.
Groups enumerated(const std::vector<std::pair<char, int>>& order, const std::string& named) {
  std::map<std::vector<int>, std::vector<int>> groups;
  std::vector<int> digits(order.size(), 0);
  int ranks = 1;
  for (const auto& [axis, size] : order) ranks *= size;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int> others;
    for (size_t i = 0; i < order.size(); ++i) {
      if (named.find(order[i].first) == std::string::npos) others.push_back(digits[i]);
    }
    groups[others].push_back(rank);
    for (size_t i = 0; i < order.size() && ++digits[i] == order[i].second; ++i) digits[i] = 0;
  }
  Groups list;
  for (auto& [others, members] : groups) list.push_back(members);
  std::sort(list.begin(), list.end());
  return list;
}

/// Each group cut into runs of neighbours, or into the ranks with the same place in all runs.
Groups cut(const Groups& groups, size_t pieces, bool runs) {
  Groups parts;
  for (const auto& group : groups) {
    const size_t length = group.size() / pieces;
    const size_t count = runs ? pieces : length;
    Groups own(count);
    for (size_t i = 0; i < group.size(); ++i)
      own[runs ? i / length : i % length].push_back(group[i]);
    parts.insert(parts.end(), own.begin(), own.end());
  }
  std::sort(parts.begin(), parts.end());
  return parts;
}

struct Case {
  MeshSizes sizes;
  std::string order;
  GroupSizes parts;

  std::string text() const {
    return order + " ranks " + std::to_string(sizes.ranks) + " tp " + std::to_string(sizes.tp) +
           " cp " + std::to_string(sizes.cp) + " pp " + std::to_string(sizes.pp) + " ep " +
           std::to_string(sizes.ep) + " etp " + std::to_string(sizes.etp) + " instances " +
           std::to_string(parts.optimizer_instances);
  }
};

/// Every combination of small sizes that forms a mesh.
std::vector<Case> many_cases() {
  std::vector<Case> cases;
  for (const char* order : {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "pp-dp-ep-cp-tp"}) {
    for (const int tp : {1, 2, 3}) {
      for (const int cp : {1, 2, 4}) {
        for (const int dp : {1, 3, 4}) {
          for (const int pp : {1, 2, 3}) {
            for (const auto& [etp, ep] : {std::pair{0, 1}, {1, 2}, {1, 3}, {2, 2}}) {
              for (const int instances : {1, 2, 3}) {
                Case one{{.ranks = tp * cp * dp * pp,
                          .tp = tp,
                          .cp = cp,
                          .pp = pp,
                          .ep = ep,
                          .etp = etp},
                         order,
                         {.optimizer_instances = instances,
                          .hierarchical_context_parallel =
                              cp == 4 ? std::vector<int>{2, 2} : std::vector<int>{},
                          .kv_replicas = tp == 2 ? 2 : 1}};
                try {
                  Mesh::make(one.sizes, one.order, one.parts);
                  cases.push_back(std::move(one));
                } catch (const ConfigError&) {  // not divisible
                }
              }
            }
          }
        }
      }
    }
  }
  return cases;
}

std::vector<std::pair<char, int>> digits_of(const Mesh& mesh, Grid grid, const std::string& order) {
  std::vector<std::pair<char, int>> digits;
  for (size_t at = 0; at < order.size(); at += 3) {
    const std::string name = order.substr(at, 2);
    for (const Axis axis : {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::pp}) {
      if (axis_name(axis) == name) digits.emplace_back(name[0], mesh.size(grid, axis));
    }
  }
  return digits;
}

TEST(GroupKinds, EnumerationGivesTheSameGroups) {
  const auto cases = many_cases();
  EXPECT_GT(cases.size(), 500u);
  for (const Case& one : cases) {
    SCOPED_TRACE(one.text());
    const Mesh mesh = Mesh::make(one.sizes, one.order, one.parts);
    const auto dense = digits_of(mesh, Grid::attention, one.order);
    const auto expert = digits_of(mesh, Grid::expert, one.order);
    const auto instances = static_cast<size_t>(one.parts.optimizer_instances);
    const Groups data = enumerated(dense, "dc");
    EXPECT_EQ(groups_of(mesh, GroupKind::dp_cp), data);
    EXPECT_EQ(groups_of(mesh, GroupKind::dp_cp_inner), cut(data, instances, true));
    EXPECT_EQ(groups_of(mesh, GroupKind::dp_cp_outer), cut(data, instances, false));
    EXPECT_EQ(groups_of(mesh, GroupKind::dp), enumerated(dense, "d"));
    EXPECT_EQ(groups_of(mesh, GroupKind::tp), enumerated(dense, "t"));
    EXPECT_EQ(groups_of(mesh, GroupKind::cp), enumerated(dense, "c"));
    EXPECT_EQ(groups_of(mesh, GroupKind::tp_cp), enumerated(dense, "tc"));
    EXPECT_EQ(groups_of(mesh, GroupKind::tp_dp_cp), enumerated(dense, "tdc"));
    EXPECT_EQ(groups_of(mesh, GroupKind::pp), enumerated(dense, "p"));
    EXPECT_EQ(groups_of(mesh, GroupKind::pp), enumerated(expert, "p")) << "equal in both grids";
    EXPECT_EQ(groups_of(mesh, GroupKind::model), enumerated(dense, "tp"));
    EXPECT_EQ(groups_of(mesh, GroupKind::ep), enumerated(expert, "e"));
    EXPECT_EQ(groups_of(mesh, GroupKind::expert_tp), enumerated(expert, "t"));
    EXPECT_EQ(groups_of(mesh, GroupKind::expert_tp_ep), enumerated(expert, "te"));
    EXPECT_EQ(groups_of(mesh, GroupKind::expert_tp_ep_pp), enumerated(expert, "tep"));
    EXPECT_EQ(groups_of(mesh, GroupKind::expert_dp), enumerated(expert, "d"));
    EXPECT_EQ(groups_of(mesh, GroupKind::expert_dp_inner),
              cut(enumerated(expert, "d"), instances, true));
  }
}

TEST(GroupKinds, EveryRankIsInOneGroupOfEachKind) {
  for (const Case& one : many_cases()) {
    const Mesh mesh = Mesh::make(one.sizes, one.order, one.parts);
    for (const GroupKind kind : all_kinds()) {
      std::vector<int> times(static_cast<size_t>(mesh.ranks()), 0);
      for (const auto& group : all_groups(mesh, kind)) {
        for (const GlobalRank rank : group) {
          ++times[static_cast<size_t>(rank.value)];
          ASSERT_EQ(group_ranks(mesh, kind, rank), group)
              << one.text() << ", " << group_kind_name(kind) << " of rank " << rank.value;
        }
      }
      ASSERT_EQ(times, std::vector<int>(times.size(), 1))
          << one.text() << ", " << group_kind_name(kind);
    }
  }
}

TEST(GroupKinds, PartsPartitionTheirAxis) {
  for (const Case& one : many_cases()) {
    const Mesh mesh = Mesh::make(one.sizes, one.order, one.parts);
    const auto expect_product = [&](GroupKind whole, GroupKind inner, GroupKind outer) {
      for (int rank = 0; rank < mesh.ranks(); ++rank) {
        std::set<int> reached;
        for (const GlobalRank across : group_ranks(mesh, outer, {rank})) {
          for (const GlobalRank member : group_ranks(mesh, inner, across))
            reached.insert(member.value);
        }
        const auto members = values(group_ranks(mesh, whole, {rank}));
        ASSERT_EQ(reached, std::set<int>(members.begin(), members.end()))
            << one.text() << ", " << group_kind_name(whole) << " of rank " << rank;
      }
    };
    expect_product(GroupKind::dp_cp, GroupKind::dp_cp_inner, GroupKind::dp_cp_outer);
    expect_product(GroupKind::cp, GroupKind::cp_inner, GroupKind::cp_outer);
    expect_product(GroupKind::expert_dp, GroupKind::expert_dp_inner, GroupKind::expert_dp_outer);
  }
}

// Groups of thousands of ranks are computed from strides, so each rank can ask for its own.
TEST(GroupKinds, SixteenThousandRanks) {
  const Mesh mesh = Mesh::make({.ranks = 16384, .tp = 8, .cp = 2, .pp = 16}, "tp-cp-ep-dp-pp",
                               {.optimizer_instances = 4});
  EXPECT_EQ(mesh.size(Axis::dp), 64);
  int64_t sum = 0;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    for (const GroupKind kind :
         {GroupKind::tp, GroupKind::cp, GroupKind::pp, GroupKind::dp_cp_inner})
      sum += static_cast<int64_t>(group_ranks(mesh, kind, {rank}).size());
  }
  EXPECT_EQ(sum, int64_t{16384} * (8 + 2 + 16 + 32));
  EXPECT_EQ(group_ranks(mesh, GroupKind::statistics, {16383}).size(), 4096u);
  EXPECT_EQ(values(group_ranks(mesh, GroupKind::pp, {5})).back(), 5 + 15 * 1024);
}

TEST(GroupKinds, ByGridAndAxesInWhateverOrder) {
  using enum Axis;
  EXPECT_EQ(group_kind(Grid::attention, {dp, cp}), GroupKind::dp_cp);
  EXPECT_EQ(group_kind(Grid::attention, {cp, dp}), GroupKind::dp_cp);
  EXPECT_EQ(group_kind(Grid::attention, {dp_inner}), GroupKind::dp_cp_inner);
  EXPECT_EQ(group_kind(Grid::expert, {dp_inner}), GroupKind::expert_dp_inner);
  EXPECT_EQ(group_kind(Grid::attention, {pp}), GroupKind::pp) << "not the ends of the pipeline";
  try {
    group_kind(Grid::expert, {cp, ep});
    FAIL();
  } catch (const CommError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("no groups along cp · ep on the expert grid"), std::string::npos) << text;
    EXPECT_NE(text.find("tp · ep"), std::string::npos) << text;
  }
}

TEST(GroupKinds, OnlyRunsWithExpertsCommunicateOnTheirGrid) {
  const auto has = [](const Mesh& mesh, GroupKind kind) {
    const std::vector<GroupKind> kinds = communicator_kinds(mesh);
    return std::ranges::find(kinds, kind) != kinds.end();
  };
  const Mesh dense = Mesh::make({.ranks = 8, .tp = 2});
  EXPECT_EQ(communicator_kinds(dense).front(), GroupKind::dp_cp);
  EXPECT_FALSE(has(dense, GroupKind::expert_dp_inner));
  EXPECT_FALSE(has(dense, GroupKind::model));
  EXPECT_TRUE(has(Mesh::make({.ranks = 8, .tp = 2, .ep = 2}), GroupKind::expert_dp_inner));
  EXPECT_TRUE(has(Mesh::make({.ranks = 8, .tp = 2, .etp = 1}), GroupKind::ep));
}

}  // namespace
}  // namespace viaduct
