// 1 rank against N ranks, by way of the reference: logits, loss, every gradient, gradient norm and
// the weights after ten steps, in every layout, against Hugging Face's numbers.

#include <gtest/gtest.h>

#include "checkpoint/safetensors_reader.h"
#include "support/golden.h"
#include "support/layout_run.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::probe_layout;
using test::relative_error;
using test::test_data;

constexpr double kLimit = 2e-5;

const std::vector<std::string> kCases{"llama", "qwen2", "gpt2", "llama_tied"};

const SafetensorsFile& reference(const std::filesystem::path& path) {
  static std::map<std::string, SafetensorsFile> files;
  return files.try_emplace(path.string(), path).first->second;
}

std::filesystem::path model_of(const std::string& name) {
  return test_data("golden") / (name == "packed_llama" ? "llama" : name) / "model";
}

/// One batch of two rows.
void expect_gradients(const std::string& name, const LayoutCase& c) {
  SCOPED_TRACE(name + " in " + c.name);
  const auto batch = test_data("golden") / name / "golden.safetensors";
  const auto got = probe_layout(model_of(name), batch, false, c.overrides);
  const SafetensorsFile& file = reference(batch);
  EXPECT_LE(relative_error(got.at("logits"), file.tensor("logits")), kLimit);
  EXPECT_LE(relative_error(got.at("loss"), file.tensor("loss")), kLimit);
  int compared = 0;
  for (const TensorInfo& info : file.tensors()) {
    if (!info.name.starts_with("grad.")) continue;
    ASSERT_TRUE(got.contains(info.name)) << info.name;
    EXPECT_LE(relative_error(got.at(info.name), file.tensor(info.name)), kLimit) << info.name;
    ++compared;
  }
  EXPECT_GT(compared, 10);
}

/// Ten steps over four rows each.
void expect_training(const std::string& name, const LayoutCase& c) {
  SCOPED_TRACE(name + " in " + c.name);
  const auto batch = test_data("golden") / name / "train.safetensors";
  std::vector<std::string> overrides = test::reference_optimizer();
  overrides.insert(overrides.end(), c.overrides.begin(), c.overrides.end());
  const auto got = probe_layout(model_of(name), batch, true, overrides);
  const SafetensorsFile& file = reference(batch);
  EXPECT_LE(relative_error(got.at("loss"), file.tensor("loss")), 10 * kLimit);
  EXPECT_LE(relative_error(got.at("grad_norm"), file.tensor("grad_norm")), 10 * kLimit);
  const auto alone = probe_layout(model_of(name), batch, true, test::reference_optimizer());
  int compared = 0;
  for (const auto& [tensor, values] : alone) {
    if (!tensor.starts_with("final.")) continue;
    // GPT-2's key biases have a gradient of zero; Adam scales rounding up there.
    const double limit = tensor.ends_with("attn.c_attn.bias") ? 5e-2 : 1e-4;
    ASSERT_TRUE(got.contains(tensor)) << tensor;
    EXPECT_LE(relative_error(got.at(tensor), values), limit) << tensor;
    ++compared;
  }
  EXPECT_GT(compared, 10);
}

class Gradients : public testing::TestWithParam<LayoutCase> {};
class Training : public testing::TestWithParam<LayoutCase> {};

TEST_P(Gradients, MatchTheReference) {
  for (const std::string& name : kCases) expect_gradients(name, GetParam());
}

TEST_P(Training, FollowsTheReference) {
  for (const std::string& name : kCases) expect_training(name, GetParam());
}

std::vector<LayoutCase> gradient_cases() {
  return {layout(1, 1, 1, 2)};
}

std::vector<LayoutCase> training_cases() {
  return {layout(1, 1, 1, 2), layout(1, 1, 1, 4)};
}

std::string name_of(const testing::TestParamInfo<LayoutCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Layouts, Gradients, testing::ValuesIn(gradient_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Layouts, Training, testing::ValuesIn(training_cases()), name_of);

}  // namespace
}  // namespace viaduct
