// The switches of a block that families differ in, in layouts, compared with Hugging Face's
// gradients tensor by tensor: two rotary bases, layers without rotary positions, norms after
// branches only and over the heads of all tensor ranks, factors on branches and logits, tensors
// that are fused in files, rotary pairs of neighbours, learned positions behind other rows, linear
// biases of heads.

#include <gtest/gtest.h>

#include "support/layout_run.h"

namespace viaduct {
namespace {

using test::layout;
using test::ModelLayout;

constexpr double kLimit = 2e-5;

std::vector<ModelLayout> cases() {
  std::vector<ModelLayout> list;
  for (const char* model :
       {"gemma3_text", "smollm3", "olmo3", "phi3", "glm4", "granite", "opt", "bloom"}) {
    list.push_back({model, layout(2, 1, 1, 1)});
    // The ring does not support windows.
    list.push_back({model, layout(1, 2, 1, 1, {"model.cp_comm_type=a2a"}, "a2a")});
    list.push_back({model, layout(1, 1, 2, 1, {"train.micro_batch_size=1"})});
    list.push_back(
        {model, layout(1, 1, 1, 2, {"ddp.data_parallel_sharding_strategy=optim_grads_params"},
                       "sharded")});
  }
  for (const char* model : {"smollm3", "glm4", "granite", "opt", "bloom"})
    list.push_back({model, layout(1, 2, 1, 1)});
  list.push_back({"olmo3", layout(2, 1, 1, 1,
                                  {"model.recompute_granularity=selective",
                                   "model.recompute_modules=[core_attn,layernorm,mlp]"},
                                  "recompute")});
  list.push_back(
      {"granite", layout(2, 1, 1, 1, {"model.cross_entropy_loss_fusion=false"}, "composed_loss")});
  list.push_back({"granite", layout(2, 1, 1, 1, {"model.recompute_logits=false"}, "keeps_logits")});
  return list;
}

class BlockSwitches : public testing::TestWithParam<ModelLayout> {};

TEST_P(BlockSwitches, MatchTheReference) {
  EXPECT_GT(test::expect_reference(GetParam(), kLimit), 10);
}

INSTANTIATE_TEST_SUITE_P(Layouts, BlockSwitches, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace viaduct
