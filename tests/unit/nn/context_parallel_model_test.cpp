// Whole models on context ranks, alone and with tensor ranks, compared with one rank: loss, logits
// and every gradient summed over the ranks, for packed documents that need padding, with dropout.

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/tensor_ranks.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

using test::distance;
using test::TensorOutcome;
using test::TensorRun;

struct Case {
  std::string model;
  int cp;
  std::vector<ContextExchange> exchange;  // by block
  int inner = 1, tp = 1;
  bool sequence_parallel = false;
};

TEST(ContextParallelModel, EqualsOneRank) {
  using enum ContextExchange;
  const Case cases[] = {
      {"llama", 2, {}},
      {"llama", 4, {all_gather, p2p}},
      {"qwen2", 2, {p2p, all_gather}},  // the second block has a window
      {"gemma2", 3, {all_gather, p2p}},
      {"gpt2", 4, {a2a, a2a_p2p}, 2},
      {"gpt2", 2, {a2a, all_gather}, 1, 2, false},
      {"qwen3", 2, {p2p, p2p}, 1, 2, true},
      {"llama", 2, {all_gather, p2p}, 1, 4, true},
  };
  for (const Case& c : cases) {
    for (const auto& [recipe, bound] : {std::pair{"fp64", 1e-10}, std::pair{"fp32", 2e-5}}) {
      SCOPED_TRACE(testing::Message() << c.model << " " << recipe << " cp " << c.cp << " tp "
                                      << c.tp << " sequence parallel " << c.sequence_parallel);
      TensorRun run{test::tiny_model(c.model), recipe};
      const TensorOutcome one = test::run_tensor_ranks(run);
      run.cp = c.cp, run.cp_inner = c.inner, run.context_exchange = c.exchange;
      run.tp = c.tp, run.sequence_parallel = c.sequence_parallel;
      const TensorOutcome many = test::run_tensor_ranks(run);
      EXPECT_LE(distance({many.loss}, {one.loss}), bound);
      EXPECT_LE(distance(many.logits, one.logits), bound);
      ASSERT_EQ(many.gradients.size(), one.gradients.size());
      for (const auto& [name, gradient] : one.gradients)
        EXPECT_LE(distance(many.gradients.at(name), gradient), bound) << name;
    }
  }
}

TEST(ContextParallelModel, AWindowOverARingIsAnError) {
  TensorRun run{test::tiny_model("qwen2")};
  run.cp = 2;
  EXPECT_THROW(test::run_tensor_ranks(run), ConfigError);
}

}  // namespace
}  // namespace viaduct
