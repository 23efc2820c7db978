// The switches of a block that families differ in, in layouts, compared with Hugging Face's
// gradients tensor by tensor: two rotary bases, layers without rotary positions, norms after
// branches only and over the heads of all tensor ranks, factors on branches and logits, tensors
// that are fused in files (by kind, and by key-value head), rotary pairs of neighbours, norms of
// heads behind the rotation or with weights of their own, queries that grow with their position, an
// activation with parameters, parallel blocks with one norm and with two, norms without biases, a
// bias on the logits, learned positions behind other rows, linear biases of heads, scaled or not,
// other heads in layers without a window, values from keys, a factor behind each block, norms
// without weights, one key and value of all heads, learned positions with windows.

#include <gtest/gtest.h>

#include "support/layout_run.h"

namespace viaduct {
namespace {

using test::layout;
using test::ModelLayout;

constexpr double kLimit = 2e-5;

std::vector<ModelLayout> cases() {
  std::vector<ModelLayout> list;
  const auto add_each_axis = [&](const char* model) {
    list.push_back({model, layout(2, 1, 1, 1)});
    // The ring does not support windows; one key of all heads cannot be cut by heads.
    if (std::string(model) != "gpt_bigcode")
      list.push_back({model, layout(1, 2, 1, 1, {"model.cp_comm_type=a2a"}, "a2a")});
    list.push_back({model, layout(1, 1, 2, 1, {"train.micro_batch_size=1"})});
    list.push_back(
        {model, layout(1, 1, 1, 2, {"ddp.data_parallel_sharding_strategy=optim_grads_params"},
                       "sharded")});
  };
  for (const char* model :
       {"gemma3_text", "gemma4_text", "smollm3", "olmo3", "phi3", "glm4", "granite", "apertus",
        "hunyuan_v1_dense", "ministral3", "nemotron", "gpt_neox", "phi", "cohere2", "falcon",
        "falcon_alibi", "opt", "bloom", "stablelm_parallel"})
    add_each_axis(model);
  for (const char* model : {"cwm", "ministral", "olmo", "gpt_bigcode", "gpt_neo"})
    add_each_axis(model);
  for (const char* model : {"smollm3", "glm4", "granite", "apertus", "hunyuan_v1_dense", "nemotron",
                            "gpt_neox", "falcon_alibi", "opt", "bloom", "olmo", "gpt_bigcode"})
    list.push_back({model, layout(1, 2, 1, 1)});
  for (const char* model : {"falcon", "cohere", "stablelm_parallel", "gpt_bigcode"})
    list.push_back({model, layout(4, 1, 1, 1)});  // two ranks have the same keys
  for (const char* model : {"gpt_neox", "phi", "olmo"}) {
    list.push_back({model, layout(2, 1, 1, 1,
                                  {"model.recompute_granularity=selective",
                                   "model.recompute_modules=[core_attn,layernorm,mlp]"},
                                  "recompute")});
    list.push_back(
        {model, layout(1, 1, 2, 1,
                       {"train.micro_batch_size=1", "model.recompute_granularity=full",
                        "model.recompute_method=uniform", "model.recompute_num_layers=1"},
                       "recompute_layers")});
  }
  for (const char* setting :
       {"model.cross_entropy_loss_fusion=false", "model.recompute_logits=false"}) {
    const bool composed = std::string(setting).find("fusion") != std::string::npos;
    list.push_back(
        {"phi", layout(2, 1, 1, 1, {setting}, composed ? "composed_loss" : "keeps_logits")});
  }
  list.push_back({"olmo3", layout(2, 1, 1, 1,
                                  {"model.recompute_granularity=selective",
                                   "model.recompute_modules=[core_attn,layernorm,mlp]"},
                                  "recompute")});
  list.push_back(
      {"apertus", layout(2, 1, 1, 1,
                         {"model.recompute_granularity=selective", "model.recompute_modules=[mlp]"},
                         "recompute")});
  list.push_back({"hunyuan_v1_dense", layout(2, 1, 1, 1,
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
