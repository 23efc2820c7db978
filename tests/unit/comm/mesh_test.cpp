#include "comm/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "comm/communicator.h"

namespace viaduct {
namespace {

std::vector<int> values(const std::vector<GlobalRank>& ranks) {
  std::vector<int> list;
  for (const GlobalRank rank : ranks) list.push_back(rank.value);
  return list;
}

// tp 2, dp 3, pp 2 in the default order: tensor ranks are neighbours, stages are far apart.
TEST(Mesh, GroupsFollowTheOrder) {
  const Mesh mesh({2, 1, 1, 3, 2});
  EXPECT_EQ(mesh.ranks(), 12);
  EXPECT_EQ(values(mesh.group({3}, {Axis::tp})), (std::vector<int>{2, 3}));
  EXPECT_EQ(values(mesh.group({3}, {Axis::dp})), (std::vector<int>{1, 3, 5}));
  EXPECT_EQ(values(mesh.group({3}, {Axis::pp})), (std::vector<int>{3, 9}));
  EXPECT_EQ(values(mesh.group({9}, {Axis::tp, Axis::pp})), (std::vector<int>{2, 3, 8, 9}));
  EXPECT_EQ(mesh.coordinate({9}, Axis::dp).value, 1);
  const Mesh other({2, 1, 1, 3, 2}, "tp-cp-ep-pp-dp");
  EXPECT_EQ(values(other.group({3}, {Axis::pp})), (std::vector<int>{1, 3}));
  EXPECT_EQ(values(other.group({3}, {Axis::dp})), (std::vector<int>{3, 7, 11}));
}

TEST(Mesh, EveryRankIsInOneGroupOfEachAxis) {
  const Mesh mesh({2, 3, 1, 2, 2});
  for (const Axis axis : {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::pp}) {
    std::set<std::vector<int>> groups;
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      const auto group = values(mesh.group({rank}, {axis}));
      EXPECT_EQ(group.size(), static_cast<size_t>(mesh.size(axis)));
      EXPECT_EQ(std::count(group.begin(), group.end(), rank), 1);
      groups.insert(group);
    }
    EXPECT_EQ(groups.size(), static_cast<size_t>(mesh.ranks() / mesh.size(axis)));
  }
}

// The place in a part is the place in the group of that part.
TEST(Mesh, CoordinatesInPartsAreThoseOfTheirGroups) {
  for (const char* order : {"tp-cp-ep-dp-pp", "tp-ep-dp-cp-pp"}) {
    const Mesh mesh = Mesh::make({.ranks = 48, .tp = 4, .cp = 2, .pp = 2, .ep = 6, .etp = 2}, order,
                                 {.optimizer_instances = 2,
                                  .hierarchical_context_parallel = {2, 1},
                                  .kv_replicas = 2,
                                  .expert_domains = 3});
    for (const Grid grid : {Grid::attention, Grid::expert}) {
      for (const Axis axis : {Axis::tp_kv, Axis::cp_inner, Axis::cp_outer, Axis::dp_inner,
                              Axis::dp_outer, Axis::ep_inner, Axis::ep_outer}) {
        for (int rank = 0; rank < mesh.ranks(); ++rank) {
          const auto group = values(mesh.group(grid, {rank}, {axis}));
          ASSERT_EQ(group.size(), static_cast<size_t>(mesh.size(grid, axis)));
          const int place = mesh.coordinate(grid, {rank}, axis).value;
          EXPECT_EQ(group.at(static_cast<size_t>(place)), rank) << order << axis_name(axis);
          EXPECT_EQ(mesh.leads(grid, {rank}, {axis}), place == 0);
        }
      }
    }
  }
}

// A loop over the ranks of a large run: the square of their number would take minutes.
TEST(Mesh, ManyRanksCostNothing) {
  const Mesh mesh({8, 1, 1, 1 << 17, 1});
  int groups = 0;
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    groups += mesh.leads(Grid::attention, {rank}, {Axis::dp_inner}) ? 1 : 0;
  EXPECT_EQ(groups, 8);
}

TEST(Mesh, RefusesOrdersThatAreNone) {
  EXPECT_THROW(Mesh({1, 1, 1, 1, 1}, "tp-cp-ep-dp"), ConfigError);
  EXPECT_THROW(Mesh({1, 1, 1, 1, 1}, "tp-cp-ep-dp-dp"), ConfigError);
  EXPECT_THROW(Mesh({1, 1, 1, 1, 1}, "tp-cp-ep-dp-zz"), ConfigError);
  EXPECT_THROW(Mesh({0, 1, 1, 1, 1}), ConfigError);
}

// The message of the ConfigError that a mesh of these sizes throws, or "".
std::string refusal(const MeshSizes& sizes, std::string_view order = "tp-cp-ep-dp-pp",
                    const GroupSizes& parts = {}) {
  try {
    Mesh::make(sizes, order, parts);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Mesh, TheExpertGridHasItsOwnTensorAndDataAxes) {
  const Mesh mesh = Mesh::make({.ranks = 16, .tp = 4, .pp = 2, .ep = 4, .etp = 1});
  EXPECT_EQ(mesh.size(Axis::dp), 2);
  EXPECT_EQ(mesh.size(Grid::expert, Axis::tp), 1);
  EXPECT_EQ(mesh.size(Grid::expert, Axis::dp), 2);
  EXPECT_EQ(values(mesh.group(Grid::expert, {6}, {Axis::ep})), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(values(mesh.group(Grid::expert, {6}, {Axis::dp})), (std::vector<int>{2, 6}));
  EXPECT_EQ(mesh.coordinate(Grid::expert, {6}, Axis::ep).value, 2);
  EXPECT_EQ(Mesh({2, 3, 1, 2, 1}).size(Grid::expert, Axis::dp), 6) << "without experts dp · cp";
}

TEST(Mesh, RefusesSizesThatDoNotFit) {
  EXPECT_NE(
      refusal({.ranks = 6, .tp = 4}).find("6 ranks are not divisible by the attention grid's 4"),
      std::string::npos);
  EXPECT_NE(refusal({.ranks = 8, .ep = 3}).find("expert grid's 3"), std::string::npos);
  const MeshSizes stages{.ranks = 8, .cp = 2, .pp = 2};
  EXPECT_EQ(refusal(stages), "");
  EXPECT_NE(refusal(stages, "tp-cp-ep-pp-dp").find("dp = 4 must equal the attention grid's dp = 2"),
            std::string::npos);
  EXPECT_EQ(refusal({.ranks = 8, .cp = 2}, "tp-cp-ep-pp-dp"), "") << "one stage";
  EXPECT_EQ(refusal({.ranks = 8, .tp = 2, .pp = 2}, "tp-cp-ep-pp-dp"), "");
}

TEST(Mesh, PartsDivideTheirAxes) {
  const MeshSizes sizes{.ranks = 24, .tp = 2, .cp = 4};
  EXPECT_EQ(
      refusal(
          sizes, "tp-cp-ep-dp-pp",
          {.optimizer_instances = 6, .hierarchical_context_parallel = {2, 2}, .kv_replicas = 2}),
      "");
  EXPECT_NE(refusal(sizes, "tp-cp-ep-dp-pp", {.optimizer_instances = 5}), "");
  EXPECT_NE(refusal(sizes, "tp-cp-ep-dp-pp", {.hierarchical_context_parallel = {2, 4}}), "");
  EXPECT_NE(refusal(sizes, "tp-cp-ep-dp-pp", {.kv_replicas = 3}), "");
}

// tp 2, cp 4, dp 3: a part has contiguous places of its axis, or one place of each run.
TEST(Mesh, PartsOfAxes) {
  const Mesh mesh = Mesh({2, 4, 1, 3, 1})
                        .with({.optimizer_instances = 2,
                               .hierarchical_context_parallel = {2, 2},
                               .kv_replicas = 2});
  EXPECT_EQ(values(mesh.group({4}, {Axis::cp_inner})), (std::vector<int>{4, 6}));
  EXPECT_EQ(values(mesh.group({4}, {Axis::cp_outer})), (std::vector<int>{0, 4}));
  EXPECT_EQ(values(mesh.group({4}, {Axis::tp_kv})), (std::vector<int>{4, 5}));
  // Data ranks at place 0 of tp: 0 2 4 … 22; an instance has six of them, not whole rows of cp.
  EXPECT_EQ(values(mesh.group({10}, {Axis::dp_inner})), (std::vector<int>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(values(mesh.group({10}, {Axis::dp_outer})), (std::vector<int>{10, 22}));
  EXPECT_EQ(mesh.coordinate({22}, Axis::dp_inner).value, 5);
  EXPECT_EQ(mesh.coordinate({22}, Axis::dp_outer).value, 1);
  EXPECT_THROW(mesh.group({0}, {Axis::cp, Axis::cp_inner}), CommError);
  EXPECT_THROW(mesh.group({0}, {Axis::dp_inner, Axis::dp}), CommError);
  EXPECT_THROW(mesh.group({24}, {Axis::tp}), CommError);
}

TEST(SelfCommunicator, MovesNothingAndRefusesWhatDoesNotFit) {
  const auto self = make_self_communicator();
  EXPECT_EQ(self->size(), 1);
  Tensor in = host_tensor(DType::f32, {2}), out = host_tensor(DType::f32, {2});
  in.data<float>()[1] = 3;
  self->all_reduce(in, ReduceOp::sum);
  EXPECT_EQ(in.data<float>()[1], 3);
  self->all_gather(in, out);
  EXPECT_EQ(out.data<float>()[1], 3);
  self->reduce_scatter(in, in);
  EXPECT_THROW(self->all_gather(in, host_tensor(DType::f32, {4})), ShapeError);
}

}  // namespace
}  // namespace viaduct
