// T5 over data-parallel ranks, with every way to shard what they hold, and over tensor ranks, with
// and without sequence parallelism: the reference's logits, loss and gradients, and ten steps of
// its trace.

#include <gtest/gtest.h>

#include "checkpoint/safetensors_reader.h"
#include "support/layout_run.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::ModelLayout;

std::vector<LayoutCase> layouts() {
  const std::string strategy = "ddp.data_parallel_sharding_strategy=";
  return {layout(1, 1, 1, 1, {"train.micro_batch_size=1"}, "one"),
          layout(1, 1, 1, 2),
          layout(1, 1, 1, 2, {strategy + "optim_grads"}, "gradients"),
          layout(1, 1, 1, 2, {strategy + "optim_grads_params"}, "full"),
          layout(2, 1, 1, 1, {"model.sequence_parallel=false"}),
          layout(2, 1, 1, 1, {"model.sequence_parallel=true"}, "sequence"),
          layout(4, 1, 1, 1, {"model.sequence_parallel=true"}, "sequence"),
          layout(2, 1, 1, 2, {"model.sequence_parallel=true"}, "sequence")};
}

std::vector<ModelLayout> cases() {
  std::vector<ModelLayout> cases;
  for (const char* model : {"t5", "t5_v1_1"}) {
    for (const LayoutCase& one : layouts()) cases.push_back({model, one});
  }
  return cases;
}

class EncoderDecoderLayout : public testing::TestWithParam<ModelLayout> {};

TEST_P(EncoderDecoderLayout, GivesTheReferencesGradients) {
  EXPECT_GT(test::expect_reference(GetParam(), 2e-5), 20);
}

TEST_P(EncoderDecoderLayout, TenStepsFollowTheTrace) {
  const auto folder = test::test_data("golden") / GetParam().model;
  std::vector<std::string> overrides = GetParam().layout.overrides;
  for (const std::string& one : test::reference_optimizer()) overrides.push_back(one);
  const auto got =
      test::probe_layout(folder / "model", folder / "train.safetensors", true, overrides);
  const SafetensorsFile file(folder / "train.safetensors");
  for (int64_t step = 0; step < 10; ++step) {
    const float loss = file.tensor("loss").data<float>()[step],
                norm = file.tensor("grad_norm").data<float>()[step];
    EXPECT_NEAR(got.at("loss").data<float>()[step], loss, 2e-4 * loss) << "step " << step + 1;
    EXPECT_NEAR(got.at("grad_norm").data<float>()[step], norm, 2e-4 * norm) << "step " << step + 1;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, EncoderDecoderLayout, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace viaduct
