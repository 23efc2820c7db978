// The communicators of a run follow from the mesh, by grid and axes: checks their members on
// communicating ranks, with experts and without.

#include "comm/parallel_groups.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/function_ref.h"
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

}  // namespace
}  // namespace viaduct
