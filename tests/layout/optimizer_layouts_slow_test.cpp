// Every optimizer trains as on one rank, in every layout: ten steps of the reference's batches.

#include <gtest/gtest.h>

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

struct Case {
  std::string name, model;
  std::vector<std::string> optimizer;
  double limit;  // relative error of a weight
};

void PrintTo(const Case& c, std::ostream* os) {
  *os << c.name;
}

std::map<std::string, Tensor> train(const Case& c, const LayoutCase& layout) {
  std::vector<std::string> overrides = test::reference_optimizer();
  for (const auto& list : {c.optimizer, layout.overrides})
    overrides.insert(overrides.end(), list.begin(), list.end());
  return probe_layout(test_data("golden") / c.model / "model",
                      test_data("golden") / c.model / "train.safetensors", true, overrides);
}

class OptimizerLayouts : public testing::TestWithParam<Case> {};

TEST_P(OptimizerLayouts, TrainAsOneRankDoes) {
  const auto alone = train(GetParam(), layout(1, 1, 1, 1));
  std::vector<LayoutCase> splits{layout(2, 1, 1, 1),
                                 layout(1, 1, 2, 1, {"train.micro_batch_size=1"}),
                                 layout(1, 1, 1, 2, {"train.micro_batch_size=1"}),
                                 layout(2, 1, 1, 2, {"train.micro_batch_size=1"})};
  if (GetParam().model == "mixtral") {
    splits.push_back(layout(
        1, 1, 1, 2, {"train.micro_batch_size=1", "model.expert_model_parallel_size=2"}, "ep2"));
  }
  for (const LayoutCase& split : splits) {
    SCOPED_TRACE(split.name);
    const auto found = train(GetParam(), split);
    ASSERT_EQ(found.size(), alone.size());
    for (const auto& [name, tensor] : alone)
      EXPECT_LE(relative_error(found.at(name), tensor), GetParam().limit) << name;
  }
}

// Lion's steps are signs, which rounding flips where a sum is nearly zero: it is compared bitwise
// where rounding is the same (tests/unit/sharding).
INSTANTIATE_TEST_SUITE_P(
    Optimizers, OptimizerLayouts,
    testing::Values(Case{"sgd", "llama", {"optimizer.optimizer=sgd"}, 1e-4},
                    Case{"muon", "llama", {"optimizer.optimizer=muon"}, 2e-3},
                    Case{"muon_transposed", "gpt2", {"optimizer.optimizer=muon"}, 2e-3},
                    Case{"adafactor", "llama", {"optimizer.optimizer=adafactor"}, 1e-3},
                    Case{"adafactor_tied", "llama_tied", {"optimizer.optimizer=adafactor"}, 1e-3},
                    // The gradients of GPT-2's key biases are 0 except for rounding; this epsilon
                    // keeps Adafactor from dividing them by their own size.
                    Case{"adafactor_transposed",
                         "gpt2",
                         {"optimizer.optimizer=adafactor", "optimizer.adafactor_eps1=1e-12"},
                         1e-3},
                    Case{"adafactor_experts", "mixtral", {"optimizer.optimizer=adafactor"}, 1e-3}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
