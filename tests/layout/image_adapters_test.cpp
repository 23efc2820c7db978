// Adapters in the text model, the vision tower and the projector, in layouts: PEFT's gradients, ten
// steps, and the same dropout.

#include <gtest/gtest.h>

#include "base/file.h"
#include "checkpoint/safetensors_reader.h"
#include "support/golden.h"
#include "support/layout_run.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::probe_layout;
using test::relative_error;
using test::test_data;

constexpr double kLimit = 2e-5;

class ImageAdaptersLayout : public testing::TestWithParam<LayoutCase> {
 protected:
  static std::vector<std::pair<std::string, std::string>> cases() {
    std::vector<std::pair<std::string, std::string>> all{{"lora_llava_clip", "llava_clip"}};
    if (GetParam().suits("gemma3_images")) all.emplace_back("dora_gemma3_images", "gemma3_images");
    return all;
  }
};

TEST_P(ImageAdaptersLayout, EqualsPeft) {
  for (const auto& [name, base] : cases()) {
    SCOPED_TRACE(name);
    const auto folder = test_data("golden") / name, model = test_data("golden") / base / "model";
    std::vector<std::string> overrides = GetParam().overrides;
    overrides.push_back("peft.adapter=" + (folder / "adapter").string());
    const SafetensorsFile once(folder / "golden.safetensors");
    EXPECT_GT(
        test::expect_gradients_of(
            probe_layout(model, folder / "golden.safetensors", false, overrides), once, kLimit),
        30);
    const SafetensorsFile steps(folder / "train.safetensors");
    for (const std::string& one : test::reference_optimizer()) overrides.push_back(one);
    const auto trained = probe_layout(model, folder / "train.safetensors", true, overrides);
    EXPECT_LE(relative_error(trained.at("loss"), steps.tensor("loss")), 10 * kLimit);
    EXPECT_LE(relative_error(trained.at("grad_norm"), steps.tensor("grad_norm")), 10 * kLimit);
  }
}

/// Losses of ten steps of LLaVA's adapter with dropout, which its file says.
Tensor losses_with_dropout(const std::vector<std::string>& layout_overrides) {
  const test::TemporaryFolder folder;
  const auto adapter = folder / "adapter", golden = test_data("golden/lora_llava_clip");
  std::filesystem::copy(golden / "adapter", adapter);
  std::string config = read_file(adapter / "adapter_config.json");
  const std::string none = "\"lora_dropout\": 0.0";
  config.replace(config.find(none), none.size(), "\"lora_dropout\": 0.3");
  std::filesystem::remove(adapter / "adapter_config.json");
  write_file_atomically(adapter / "adapter_config.json", config);
  std::vector<std::string> overrides = layout_overrides;
  overrides.push_back("peft.adapter=" + adapter.string());
  for (const std::string& one : test::reference_optimizer()) overrides.push_back(one);
  return probe_layout(test_data("golden/llava_clip/model"), golden / "train.safetensors", true,
                      overrides)
      .at("loss");
}

TEST_P(ImageAdaptersLayout, DropsTheSame) {
  static const Tensor alone = losses_with_dropout(layout(1, 1, 1, 1).overrides);
  EXPECT_LE(relative_error(losses_with_dropout(GetParam().overrides), alone), 1e-4);
  const SafetensorsFile without(test_data("golden/lora_llava_clip/train.safetensors"));
  EXPECT_GT(relative_error(alone, without.tensor("loss")), 1e-3);
}

const std::string kRows = "train.micro_batch_size=1",
                  kFirst = "model.num_layers_in_first_pipeline_stage=1";

/// Gemma's images are not cut.
LayoutCase of_llava(LayoutCase c) {
  c.only = {"llava_clip"};
  return c;
}

INSTANTIATE_TEST_SUITE_P(
    Cases, ImageAdaptersLayout,
    testing::Values(
        layout(2, 1, 1, 1), layout(2, 1, 1, 1, {"model.sequence_parallel=false"}, "whole_stream"),
        layout(1, 1, 2, 1, {kFirst, kRows}), layout(1, 1, 1, 3),
        layout(2, 1, 2, 1, {kFirst, kRows}, "both"),
        layout(1, 1, 1, 1, {"dist.ranks=2", "model.encoder_pipeline_model_parallel_size=1", kRows},
               "tower1"),
        layout(1, 1, 1, 3, {"ddp.data_parallel_sharding_strategy=optim_grads_params"}, "shards"),
        layout(2, 1, 1, 1,
               {"model.recompute_granularity=full", "model.recompute_method=uniform",
                "model.recompute_num_layers=1"},
               "recompute"),
        of_llava(layout(1, 2, 1, 1, {kRows}))),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
