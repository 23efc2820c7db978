// Adapters in both halves of T5, in layouts: PEFT's gradients, ten steps, and the same dropout.

#include <gtest/gtest.h>

#include "checkpoint/safetensors_reader.h"
#include "support/golden.h"
#include "support/layout_run.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::probe_layout;
using test::relative_error;
using test::test_data;

constexpr double kLimit = 2e-5;
const std::string kModel = "golden/t5_v1_1/model";

class EncoderAdaptersLayout : public testing::TestWithParam<LayoutCase> {};

TEST_P(EncoderAdaptersLayout, EqualsPeft) {
  for (const char* name : {"lora_t5", "dora_t5"}) {
    SCOPED_TRACE(name);
    const auto folder = test_data("golden") / name;
    std::vector<std::string> overrides = GetParam().overrides;
    overrides.push_back("peft.adapter=" + (folder / "adapter").string());
    const SafetensorsFile once(folder / "golden.safetensors");
    EXPECT_GT(test::expect_gradients_of(
                  probe_layout(test_data(kModel), folder / "golden.safetensors", false, overrides),
                  once, kLimit),
              20);
    const SafetensorsFile steps(folder / "train.safetensors");
    for (const std::string& one : test::reference_optimizer()) overrides.push_back(one);
    const auto trained =
        probe_layout(test_data(kModel), folder / "train.safetensors", true, overrides);
    EXPECT_LE(relative_error(trained.at("loss"), steps.tensor("loss")), 10 * kLimit);
    EXPECT_LE(relative_error(trained.at("grad_norm"), steps.tensor("grad_norm")), 10 * kLimit);
  }
}

/// Losses of ten steps of new adapters with dropout.
Tensor losses_with_dropout(std::vector<std::string> overrides) {
  for (const char* one :
       {"peft.scheme=lora", "peft.dim=3", "peft.dropout=0.3", "optimizer.lr=1e-2"})
    overrides.emplace_back(one);
  return probe_layout(test_data(kModel), test_data("golden/lora_t5/train.safetensors"), true,
                      overrides)
      .at("loss");
}

/// Not over context ranks, where dropout is refused (EncoderSupport).
class EncoderAdaptersDropout : public EncoderAdaptersLayout {};

TEST_P(EncoderAdaptersDropout, DropsTheSame) {
  static const Tensor alone = losses_with_dropout(layout(1, 1, 1, 1).overrides);
  EXPECT_LE(relative_error(losses_with_dropout(GetParam().overrides), alone), 1e-4);
}

const std::string kRows = "train.micro_batch_size=1",
                  kOwnStage = "model.encoder_pipeline_model_parallel_size=1",
                  kFull = "ddp.data_parallel_sharding_strategy=optim_grads_params";

std::vector<LayoutCase> layouts() {
  return {layout(1, 1, 1, 2, {kRows, kFull}, "full"),
          layout(2, 1, 1, 1, {"model.sequence_parallel=true"}, "sequence"),
          layout(2, 1, 1, 1, {"model.sequence_parallel=false"}),
          layout(1, 1, 2, 1, {kRows, "dist.ranks=3", kOwnStage}, "encoder1"),
          layout(1, 1, 2, 1,
                 {kRows, "model.recompute_granularity=full", "model.recompute_method=uniform",
                  "model.recompute_num_layers=1"},
                 "recompute"),
          layout(2, 1, 2, 1, {kRows, "model.pipeline_schedule=zero_bubble"}, "zero_bubble")};
}

std::string name_of(const testing::TestParamInfo<LayoutCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Cases, EncoderAdaptersLayout, testing::ValuesIn(layouts()), name_of);
INSTANTIATE_TEST_SUITE_P(Context, EncoderAdaptersLayout,
                         testing::Values(layout(1, 2, 1, 1, {"model.cp_comm_type=all_gather"})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Cases, EncoderAdaptersDropout, testing::ValuesIn(layouts()), name_of);

}  // namespace
}  // namespace viaduct
