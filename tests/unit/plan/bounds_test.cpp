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

}  // namespace
}  // namespace viaduct
