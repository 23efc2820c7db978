// Lower bounds of step time from the cost of a layer.

#include "plan/bounds.h"

#include <gtest/gtest.h>

#include "hardware/cluster.h"

namespace viaduct {
namespace {

/// Of four micro-batches of 8 layers that take 2 seconds each, and nothing else.
double bound_with_ends(int pp, double end_seconds, double embedding_seconds,
                       bool has_encoder = false, int encoder_stages = 0,
                       double encoder_seconds = 0) {
  ModelCost model;
  model.has_encoder = has_encoder;
  model.layers = model.counted_layers = 8;
  LayerCost layer;
  layer.known = true;
  layer.layer_seconds = 2;
  layer.end_seconds = end_seconds, layer.embedding_seconds = embedding_seconds;
  layer.encoder_seconds = encoder_seconds;
  Layout layout;
  layout.pp = pp, layout.micro_batches = 4;
  layout.encoder_stages = layout.encoder_tp = encoder_stages;
  return LayoutBound(model, load_cluster("dgx-h100"), {}).of(layer, layout).seconds;
}

TEST(LayoutBound, OneStageHasBothEnds) {
  EXPECT_DOUBLE_EQ(bound_with_ends(1, 0, 0), 4 * 8 * 2);
  EXPECT_DOUBLE_EQ(bound_with_ends(1, 3, 1), 4 * (8 * 2 + 3));
}

TEST(LayoutBound, OfSeveralStagesTheOneWithTheLongerEndCounts) {
  const double without = bound_with_ends(2, 0, 0);
  EXPECT_DOUBLE_EQ(without, 4 * 4 * 2 + 4 * 2);
  EXPECT_DOUBLE_EQ(bound_with_ends(2, 3, 1), without + 4 * 2);      // the head
  EXPECT_DOUBLE_EQ(bound_with_ends(2, 3, 2.5), without + 4 * 1.5);  // one of them has half
}

// Weights of 1e12 bytes, which a network takes seconds for.
TEST(LayoutBound, FrozenWeightsAreExchangedOnlyWhereTheyAreShards) {
  ModelCost model;
  model.layers = model.counted_layers = 8;
  model.parameters = 8e10;
  model.bytes.weights = 2;
  LayerCost layer;
  layer.known = true;
  layer.layer_parameters = 1e10, layer.layer_seconds = 1e-3;
  Layout layout;
  layout.dp = 8, layout.sharding = Sharding::optimizer;
  const auto bound = [&](bool frozen) {
    model.some_frozen = model.layers_frozen = frozen;
    return LayoutBound(model, load_cluster("dgx-h100"), {}).of(layer, layout);
  };
  EXPECT_GT(bound(false).seconds, 0.1);
  EXPECT_LT(bound(true).seconds, 0.1);
  layout.sharding = Sharding::full;
  EXPECT_GT(bound(true).seconds, 0.1);
  // The states of adapters: gradients and, with the optimizer's alone sharded, an eighth of those.
  layout.sharding = Sharding::optimizer;
  const double without = bound(true).bytes;
  layer.layer_trained = {0, 1e9, 8e9};
  EXPECT_DOUBLE_EQ(bound(true).bytes, without + 8 * (1e9 + 1e9));
  layer.end_trained = {0, 1e8, 8e8};
  EXPECT_DOUBLE_EQ(bound(true).bytes, without + 8 * (1e9 + 1e9) + 1e8 + 1e8);
}

// Of a model whose vision tower alone is frozen: gradients are those that its layers have.
TEST(LayoutBound, LayersThatTrainBesideFrozenPartsAreExchanged) {
  ModelCost model;
  model.layers = model.counted_layers = 8;
  model.parameters = 8e10;
  model.bytes.weights = 2;
  model.some_frozen = true;
  LayerCost layer;
  layer.known = true;
  layer.layer_parameters = 1e10, layer.layer_seconds = 1e-3;
  Layout layout;
  layout.dp = 8, layout.sharding = Sharding::optimizer;
  const auto seconds = [&] {
    return LayoutBound(model, load_cluster("dgx-h100"), {}).of(layer, layout).seconds;
  };
  const double weights = seconds();
  EXPECT_GT(weights, 0.1);
  layer.layer_trained.gradients = 4e10;  // FP32, summed in the weights' format at least
  EXPECT_NEAR(seconds() / weights, 2, 0.05);
  model.layers_frozen = true;
  EXPECT_LT(seconds(), 0.1);
}

// Its encoder is on the first stage, whichever the others are as long as: there is no even bubble.
TEST(LayoutBound, AFirstStageWithAnEncoderHasNoEvenPipeline) {
  const double layers = 4 * 4 * 2;
  EXPECT_DOUBLE_EQ(bound_with_ends(2, 3, 1, true), layers + 4 * 2);        // the head
  EXPECT_DOUBLE_EQ(bound_with_ends(2, 5, 1, true, 0, 3), layers + 4 * 3);  // the encoder
  EXPECT_DOUBLE_EQ(bound_with_ends(1, 3, 1, true), bound_with_ends(1, 3, 1));
}

// Stages behind an encoder's own are even.
TEST(LayoutBound, StagesBehindAnEncodersOwnHaveTheirEndsAlone) {
  EXPECT_DOUBLE_EQ(bound_with_ends(2, 5, 1, true, 1, 2), bound_with_ends(2, 3, 1));
  EXPECT_DOUBLE_EQ(bound_with_ends(1, 5, 1, true, 1, 2), bound_with_ends(1, 3, 1));
}

// An encoder that takes longer than all other stages: of 60 s a micro-batch, on two stages.
TEST(LayoutBound, AnEncodersOwnStagesMayBeTheSlowest) {
  EXPECT_DOUBLE_EQ(bound_with_ends(2, 61, 1, true, 2, 60), 4 * 60 / 2 / 2);
}

// Its ranks share the work and the weights of the whole model.
TEST(ModelBound, CountsTheRanksOfTheEncoder) {
  ModelCost model;
  model.has_encoder = true;
  model.step_seconds = 60, model.parameters = 60, model.bytes.weights = 2;
  Layout layout;
  layout.tp = 2, layout.pp = 2, layout.dp = 2, layout.sharding = Sharding::none;
  EXPECT_DOUBLE_EQ(model_bound(model, layout).seconds, 60. / 8);
  EXPECT_DOUBLE_EQ(model_bound(model, layout).bytes, 2 * 60. / 4);
  layout.encoder_stages = 2, layout.encoder_tp = 1;
  EXPECT_DOUBLE_EQ(model_bound(model, layout).seconds, 60. / 12);
  EXPECT_DOUBLE_EQ(model_bound(model, layout).bytes, 2 * 60. / 6);
}

}  // namespace
}  // namespace viaduct
