// Adapters compared with PEFT: logits, loss and every gradient, ten steps of AdamW with the values
// afterwards, tensor by tensor; and that nothing else changes.

#include <gtest/gtest.h>

#include "checkpoint/model_folder.h"
#include "support/golden.h"
#include "support/layout_run.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using test::probe_layout;
using test::relative_error;
using test::test_data;

constexpr double kLimit = 2e-5;

struct Case {
  std::string name, model;
  std::vector<std::string> more = {};  // overrides
};

const std::vector<std::string> kRouterLossOff{"model.moe_aux_loss_coeff=0"};

void PrintTo(const Case& c, std::ostream* os) {
  *os << c.name;
}

class Adapters : public testing::TestWithParam<Case> {
 protected:
  std::filesystem::path folder() const { return test_data("golden") / GetParam().name; }
  std::filesystem::path model() const { return test_data("golden") / GetParam().model / "model"; }
  /// The overrides of a run with the adapter, and `further` ones.
  std::vector<std::string> adapted(const std::vector<std::string>& further = {}) const {
    std::vector<std::string> all = GetParam().more;
    all.push_back("peft.adapter=" + (folder() / "adapter").string());
    all.insert(all.end(), further.begin(), further.end());
    return all;
  }
};

TEST_P(Adapters, GradientsAreThoseOfPeft) {
  const SafetensorsFile file(folder() / "golden.safetensors");
  const int64_t all = file.find("input_ids")->shape[0];
  for (const std::string& rows : {std::to_string(all), std::string("1")}) {
    SCOPED_TRACE("micro-batches of " + rows);
    const auto got = probe_layout(model(), folder() / "golden.safetensors", false,
                                  adapted({"train.micro_batch_size=" + rows}));
    const int compared = test::expect_gradients_of(got, file, kLimit);
    // Of no frozen parameter.
    int given = 0;
    for (const auto& [name, tensor] : got) given += name.starts_with("grad.");
    EXPECT_EQ(given, compared);
    EXPECT_GT(compared, 10);
  }
}

TEST_P(Adapters, TenStepsFollowPeft) {
  const SafetensorsFile file(folder() / "train.safetensors");
  const auto got = probe_layout(model(), folder() / "train.safetensors", true,
                                adapted(test::reference_optimizer()));
  EXPECT_LE(relative_error(got.at("loss"), file.tensor("loss")), 10 * kLimit);
  EXPECT_LE(relative_error(got.at("grad_norm"), file.tensor("grad_norm")), 10 * kLimit);
  int compared = 0;
  for (const TensorInfo& info : file.tensors()) {
    if (!info.name.starts_with("final.")) continue;
    ASSERT_TRUE(got.contains(info.name)) << info.name;
    test::expect_trained(info.name, got.at(info.name), file.tensor(info.name));
    ++compared;
  }
  EXPECT_GT(compared, 10);
}

// Not of models with experts: another choice of experts is no rounding.
class AdaptersInBf16 : public Adapters {};

TEST_P(AdaptersInBf16, AreNearTheFp32Reference) {
  const SafetensorsFile file(folder() / "golden.safetensors");
  const auto got = probe_layout(model(), folder() / "golden.safetensors", false,
                                adapted({"mixed_precision=bf16_mixed"}));
  EXPECT_GT(test::expect_gradients_of(got, file, 0.1), 10);
}

const Case kLlama{"lora_llama", "llama"}, kMagnitudes{"dora_llama", "llama"},
    kGpt2{"lora_gpt2", "gpt2"};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Cases, Adapters,
                         testing::Values(kLlama, kMagnitudes, kGpt2,
                                         Case{"lora_experts", "mixtral", kRouterLossOff},
                                         Case{"lora_experts_v4", "mixtral", kRouterLossOff},
                                         Case{"lora_llava_clip", "llava_clip"},
                                         Case{"dora_gemma3_images", "gemma3_images"},
                                         Case{"lora_t5", "t5_v1_1"}, Case{"dora_t5", "t5_v1_1"}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Cases, AdaptersInBf16, testing::Values(kLlama, kMagnitudes, kGpt2),
                         name_of);

}  // namespace
}  // namespace viaduct
