#include "comm/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"

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

TEST(Mesh, RefusesOrdersThatAreNone) {
  EXPECT_THROW(Mesh({1, 1, 1, 1, 1}, "tp-cp-ep-dp"), ConfigError);
  EXPECT_THROW(Mesh({1, 1, 1, 1, 1}, "tp-cp-ep-dp-dp"), ConfigError);
  EXPECT_THROW(Mesh({1, 1, 1, 1, 1}, "tp-cp-ep-dp-zz"), ConfigError);
  EXPECT_THROW(Mesh({0, 1, 1, 1, 1}), ConfigError);
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
