// Dropout does not depend on the layout: ten steps with dropout everywhere follow the same losses
// and norms as on one rank. (The last test shows that the trace without dropout differs.)

#include <gtest/gtest.h>

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

std::map<std::string, Tensor> train(const std::string& name, const LayoutCase& c,
                                    const char* probability) {
  std::vector<std::string> overrides = test::reference_optimizer();
  for (const char* field : {"hidden_dropout", "attention_dropout", "embedding_dropout"})
    overrides.push_back(std::string("model.") + field + "=" + probability);
  overrides.insert(overrides.end(), c.overrides.begin(), c.overrides.end());
  return probe_layout(test_data("golden") / name / "model",
                      test_data("golden") / name / "train.safetensors", true, overrides);
}

/// The ten steps of one rank.
const std::map<std::string, Tensor>& trained_alone(const std::string& name) {
  static std::map<std::string, std::map<std::string, Tensor>> runs;
  auto& run = runs[name];
  if (run.empty()) run = train(name, layout(1, 1, 1, 1), "0.2");
  return run;
}

class Dropout : public testing::TestWithParam<LayoutCase> {};

TEST_P(Dropout, IsTheSameInEveryLayout) {
  for (const char* name : {"llama", "gpt2"}) {
    SCOPED_TRACE(name);
    const auto& expected = trained_alone(name);
    const auto got = train(name, GetParam(), "0.2");
    EXPECT_LE(relative_error(got.at("loss"), expected.at("loss")), 1e-4);
    EXPECT_LE(relative_error(got.at("grad_norm"), expected.at("grad_norm")), 1e-4);
  }
}

TEST(DropoutOfTheTest, ChangesTheTrace) {
  const LayoutCase alone = layout(1, 1, 1, 1);
  EXPECT_GT(relative_error(train("llama", alone, "0.2").at("loss"),
                           train("llama", alone, "0").at("loss")),
            1e-3);
}

std::vector<LayoutCase> cases() {
  const std::string two = "train.micro_batch_size=1";
  return {layout(1, 1, 1, 2), layout(2, 1, 1, 1),
          layout(2, 1, 1, 1, {"model.sequence_parallel=false"}, "whole_sequence"),
          layout(1, 2, 1, 1), layout(1, 2, 1, 1, {"model.cp_comm_type=all_gather"}, "all_gather"),
          layout(1, 2, 1, 1, {"model.cp_comm_type=a2a"}, "a2a"), layout(1, 1, 2, 1, {two}),
          // Each axis at 4, each pair at 2 and with one of them at 4.
          layout(4, 1, 1, 1), layout(1, 4, 1, 1), layout(1, 1, 4, 1, {two}), layout(1, 1, 1, 4),
          layout(2, 2, 1, 1), layout(2, 1, 2, 1, {two}), layout(2, 1, 1, 2),
          layout(1, 2, 2, 1, {two}), layout(1, 2, 1, 2), layout(1, 1, 2, 2, {two}),
          layout(4, 2, 1, 1), layout(2, 4, 1, 1), layout(4, 1, 2, 1, {two}), layout(2, 1, 1, 4),
          layout(1, 4, 1, 2), layout(1, 2, 4, 1, {two}), layout(1, 1, 2, 4, {two})};
}

INSTANTIATE_TEST_SUITE_P(Layouts, Dropout, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
