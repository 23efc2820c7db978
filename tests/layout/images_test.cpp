// A model with images over data-parallel ranks, of which one has no image, with every way to shard
// what they hold, and over tensor ranks: the reference's logits, loss and gradients.

#include <gtest/gtest.h>

#include "support/layout_run.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::ModelLayout;

std::vector<ModelLayout> cases() {
  const std::string strategy = "ddp.data_parallel_sharding_strategy=";
  const std::vector<LayoutCase> layouts{
      layout(1, 1, 1, 3),
      layout(1, 1, 1, 3, {strategy + "optim_grads"}, "gradients"),
      layout(1, 1, 1, 3, {strategy + "optim_grads_params"}, "full"),
      layout(2, 1, 1, 1),
      layout(2, 1, 1, 1, {"train.micro_batch_size=1"}, "rows"),
      layout(2, 1, 1, 3)};
  std::vector<ModelLayout> cases;
  for (const char* model : {"gemma3_images", "llava_clip", "llava_siglip"}) {
    for (const LayoutCase& one : layouts) cases.push_back({model, one});
  }
  return cases;
}

class ImagesLayout : public testing::TestWithParam<ModelLayout> {};

TEST_P(ImagesLayout, GivesTheReferencesGradients) {
  EXPECT_GT(test::expect_reference(GetParam(), 2e-5), 40);
}

INSTANTIATE_TEST_SUITE_P(Cases, ImagesLayout, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace viaduct
