// Optimizer state in narrow formats: the same on any number of shards, in the bytes that the
// formats promise, and masters as remainders without the loss of a bit.

#include <gtest/gtest.h>

#include "support/toy_ranks.h"

namespace viaduct {
namespace {

using test::ToyRank;
using test::ToyRun;
using test::train_toy;

using Formats = std::function<void(PrecisionRecipe&)>;

ToyRun toy(int ranks, bool sharded, Formats formats, const std::string& optimizer = "adam") {
  ToyRun run;
  run.mesh = Mesh({1, 1, 1, ranks, 1});
  if (!sharded) run.instances = ranks, run.store.distributed_optimizer = false;
  run.formats = std::move(formats);
  run.optimizer.name = optimizer;
  run.change = [](std::vector<Parameter>& parameters, const ParallelGroups&) {
    for (Parameter& p : parameters) p.multiplied = p.shape.rank() == 2;  // what Muon moves
  };
  run.steps = 4;
  return run;
}

const Formats kRemainders = [](PrecisionRecipe& r) { r.master = DType::i16; };
const Formats kScaled = [](PrecisionRecipe& r) {
  r.master = DType::f16, r.first_moment = DType::e4m3, r.second_moment = DType::f16;
};
const Formats kAll = [](PrecisionRecipe& r) {
  r.master = DType::i16, r.first_moment = r.second_moment = DType::e4m3;
};

class StateShards : public testing::TestWithParam<int> {};

// 4 and 8 shards would cut groups of 64 elements in two.
TEST_P(StateShards, TrainAsReplicasDo) {
  for (const Formats& formats : {kRemainders, kScaled, kAll}) {
    const auto expected = train_toy(toy(GetParam(), false, formats)),
               shards = train_toy(toy(GetParam(), true, formats));
    for (const ToyRank& rank : shards) {
      EXPECT_TRUE(rank.weights == expected[0].weights);
      EXPECT_EQ(rank.norms, expected[0].norms);
    }
  }
}

TEST_P(StateShards, OtherOptimizersTrainAsReplicasDo) {
  const std::string adam = train_toy(toy(1, false, {}))[0].weights;
  for (const char* name : {"sgd", "lion", "muon"}) {
    const auto expected = train_toy(toy(GetParam(), false, {}, name));
    for (const ToyRank& rank : train_toy(toy(GetParam(), true, {}, name)))
      EXPECT_TRUE(rank.weights == expected[0].weights) << name;
    EXPECT_FALSE(expected[0].weights == adam) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, StateShards, testing::Values(1, 2, 3, 4, 8));

TEST(MasterRemainders, AreTheMastersBitByBit) {
  // Toy gradients do not depend on the weights, so masters must not either.
  const auto whole = train_toy(toy(2, true, {})), split = train_toy(toy(2, true, kRemainders));
  for (size_t rank = 0; rank < whole.size(); ++rank) {
    EXPECT_TRUE(split[rank].masters == whole[rank].masters) << rank;
    EXPECT_EQ(2 * split[rank].master_bytes, whole[rank].master_bytes);
    EXPECT_EQ(split[rank].moment_bytes, whole[rank].moment_bytes);
  }
}

TEST(ScaledMasters, AreNearTheMasters) {
  const auto whole = train_toy(toy(1, true, {})), scaled = train_toy(toy(1, true, kScaled));
  ASSERT_EQ(whole[0].masters.size(), scaled[0].masters.size());
  const auto* a = reinterpret_cast<const float*>(whole[0].masters.data());
  const auto* b = reinterpret_cast<const float*>(scaled[0].masters.data());
  double difference = 0, size = 0;
  for (size_t i = 0; i < whole[0].masters.size() / sizeof(float); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += a[i] * a[i];
  }
  EXPECT_GT(difference, 0);
  EXPECT_LT(difference, 1e-4 * size);  // FP8 moments move them
}

TEST(StateBytes, FollowFromTheFormats) {
  struct Row {
    Formats formats;
    int64_t master, moments;  // bytes of an element
  };
  const Row rows[] = {
      {{}, 4, 8},          {[](PrecisionRecipe& r) { r.first_moment = DType::bf16; }, 4, 6},
      {kRemainders, 2, 8}, {kAll, 2, 2},
      {kScaled, 2, 3},
  };
  for (const Row& row : rows) {
    for (const ToyRank& rank : train_toy(toy(2, true, row.formats))) {
      // And 4 bytes for each group of a scaled format, whose last one may be shorter in each run.
      const int64_t groups = (row.moments == 2   ? 2
                              : row.moments == 3 ? 2
                                                 : 0) *
                             (rank.run_elements / kStateGroup);
      const int64_t runs = static_cast<int64_t>(test::toy_shapes().size());
      const int64_t scales = rank.moment_bytes - row.moments * rank.run_elements;
      EXPECT_GE(scales, 4 * groups);
      EXPECT_LE(scales, groups == 0 ? 0 : 4 * (groups + 2 * runs));
      if (row.moments != 3) {
        EXPECT_EQ(rank.master_bytes, row.master * rank.buffer_elements / 2);
      }
    }
  }
}

}  // namespace
}  // namespace viaduct
