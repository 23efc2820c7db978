// Lower bounds of step time from the cost of a layer.

#include "plan/bounds.h"

#include <gtest/gtest.h>

#include "hardware/cluster.h"

namespace viaduct {
namespace {

/// Of four micro-batches of 8 layers that take 2 seconds each, and nothing else.
double bound_with_ends(int pp, double end_seconds, double embedding_seconds) {
  ModelCost model;
  model.layers = model.counted_layers = 8;
  LayerCost layer;
  layer.known = true;
  layer.layer_seconds = 2;
  layer.end_seconds = end_seconds, layer.embedding_seconds = embedding_seconds;
  Layout layout;
  layout.pp = pp, layout.micro_batches = 4;
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
    model.frozen = frozen;
    return LayoutBound(model, load_cluster("dgx-h100"), {}).of(layer, layout);
  };
  EXPECT_GT(bound(false).seconds, 0.1);
  EXPECT_LT(bound(true).seconds, 0.1);
  layout.sharding = Sharding::full;
  EXPECT_GT(bound(true).seconds, 0.1);
  // The states of adapters: gradients and, with the optimizer's alone sharded, an eighth of those.
  layout.sharding = Sharding::optimizer;
  const double without = bound(true).bytes;
  layer.adapter_bytes = {0, 1e9, 8e9};
  EXPECT_DOUBLE_EQ(bound(true).bytes, without + 8 * (1e9 + 1e9));
}

}  // namespace
}  // namespace viaduct
