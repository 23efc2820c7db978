// Optimizer state in narrow formats: the same on any number of shards, in the bytes that the
// formats promise, and masters as remainders without losing a bit.

#include <gtest/gtest.h>

#include "support/toy_ranks.h"

namespace viaduct {
namespace {

using test::ToyRank;
using test::ToyRun;
using test::train_toy;

using Formats = std::function<void(PrecisionRecipe&)>;

ToyRun toy(int ranks, bool sharded, Formats formats,
           OptimizerKind optimizer = OptimizerKind::adam) {
  ToyRun run;
  run.mesh = Mesh({1, 1, 1, ranks, 1});
  if (!sharded) run.instances = ranks, run.store.distributed_optimizer = false;
  run.formats = std::move(formats);
  run.optimizer.kind = optimizer;
  run.change = [](std::vector<Parameter>& parameters, const ParallelGroups&) {
    for (Parameter& p : parameters) p.multiplied = p.shape.rank() == 2;  // moved by Muon
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
  for (const OptimizerKind optimizer : {OptimizerKind::adam, OptimizerKind::muon}) {
    for (const Formats& formats : {kRemainders, kScaled, kAll}) {
      const auto expected = train_toy(toy(GetParam(), false, formats, optimizer)),
                 shards = train_toy(toy(GetParam(), true, formats, optimizer));
      for (const ToyRank& rank : shards) {
        EXPECT_TRUE(rank.weights == expected[0].weights) << choice_name(optimizer);
        EXPECT_EQ(rank.norms, expected[0].norms) << choice_name(optimizer);
      }
    }
  }
}

TEST_P(StateShards, OtherOptimizersTrainAsReplicasDo) {
  const std::string adam = train_toy(toy(1, false, {}))[0].weights;
  for (const OptimizerKind kind :
       {OptimizerKind::sgd, OptimizerKind::lion, OptimizerKind::muon, OptimizerKind::adafactor}) {
    const auto expected = train_toy(toy(GetParam(), false, {}, kind));
    for (const ToyRank& rank : train_toy(toy(GetParam(), true, {}, kind)))
      EXPECT_TRUE(rank.weights == expected[0].weights) << choice_name(kind);
    EXPECT_FALSE(expected[0].weights == adam) << choice_name(kind);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, StateShards, testing::Values(1, 2, 3, 4, 8));

TEST(MasterRemainders, AreTheMastersBitByBit) {
  // Toy gradients do not depend on the weights, so masters must not either.
  for (const OptimizerKind optimizer : {OptimizerKind::adam, OptimizerKind::muon}) {
    const auto whole = train_toy(toy(2, true, {}, optimizer)),
               split = train_toy(toy(2, true, kRemainders, optimizer));
    for (size_t rank = 0; rank < whole.size(); ++rank) {
      EXPECT_TRUE(split[rank].masters == whole[rank].masters) << choice_name(optimizer) << rank;
      EXPECT_EQ(2 * split[rank].master_bytes, whole[rank].master_bytes);
      EXPECT_EQ(split[rank].moment_bytes, whole[rank].moment_bytes);
    }
  }
}

class ScaledMasters : public testing::TestWithParam<OptimizerKind> {};

TEST_P(ScaledMasters, AreNearTheMasters) {
  const auto whole = train_toy(toy(1, true, {}, GetParam())),
             scaled = train_toy(toy(1, true, kScaled, GetParam()));
  ASSERT_EQ(whole[0].masters.size(), scaled[0].masters.size());
  const auto* a = reinterpret_cast<const float*>(whole[0].masters.data());
  const auto* b = reinterpret_cast<const float*>(scaled[0].masters.data());
  double difference = 0, size = 0;
  for (size_t i = 0; i < whole[0].masters.size() / sizeof(float); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += a[i] * a[i];
  }
  EXPECT_GT(difference, 0);
  EXPECT_LT(difference, 1e-4 * size);  // FP8 moments change them
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ScaledMasters,
                         testing::Values(OptimizerKind::adam, OptimizerKind::muon),
                         [](const auto& info) { return std::string(choice_name(info.param)); });

// The weight equals the stored master: a run that resumes starts from it.
TEST(ScaledMuon, WeightsAreTheirMastersRounded) {
  ToyRun run = toy(1, true, kScaled, OptimizerKind::muon);
  const auto trained = train_toy(run);
  const auto* masters = reinterpret_cast<const float*>(trained[0].masters.data());
  const auto* weights = reinterpret_cast<const bfloat16*>(trained[0].weights.data());
  const auto elements = static_cast<size_t>(test::toy_elements());
  ASSERT_EQ(trained[0].weights.size(), elements * sizeof(bfloat16));
  ASSERT_EQ(trained[0].masters.size(), elements * sizeof(float));
  // Runs are in the order of the parameters: one rank has each of them whole.
  for (size_t i = 0; i < elements; ++i)
    ASSERT_EQ(static_cast<float>(weights[i]), static_cast<float>(bfloat16(masters[i]))) << i;
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
      // Plus 4 bytes for each group of a scaled format; the last group of a run may be shorter.
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
