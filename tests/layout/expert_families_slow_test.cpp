// OLMoE, GPT-OSS, DeepSeek, Llama 4 and other families with experts in layouts, compared with
// Hugging Face's gradients tensor by tensor: norms over the heads of all tensor ranks, sinks of
// heads that are cut or exchanged, biases of experts and of their choice, latent attention with
// each context exchange, attention in chunks, and experts whose inputs are weighted.

#include <gtest/gtest.h>

#include "support/layout_run.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::ModelLayout;

constexpr double kLimit = 2e-5;

/// With ep ranks for experts, which are whole.
LayoutCase experts(int ep, LayoutCase c) {
  c.overrides.push_back("model.expert_model_parallel_size=" + std::to_string(ep));
  c.overrides.emplace_back("model.expert_tensor_parallel_size=1");
  c.name += "_ep" + std::to_string(ep);
  return c;
}

std::vector<ModelLayout> cases() {
  const std::string two = "train.micro_batch_size=1";  // two micro-batches
  std::vector<ModelLayout> list;
  for (const char* model : {"olmoe", "deepseek_v2", "gpt_oss"}) {
    const bool window = std::string(model) == "gpt_oss";  // the ring does not support them
    list.push_back({model, experts(2, layout(1, 1, 1, 2))});
    list.push_back({model, experts(2, layout(2, 1, 1, 1))});
    list.push_back({model, experts(1, layout(2, 1, 1, 2))});
    list.push_back({model, experts(2, layout(1, 1, 2, 2))});
    list.push_back({model, experts(2, layout(1, 2, 1, 1, {"model.cp_comm_type=a2a"}, "a2a"))});
    list.push_back(
        {model, experts(2, layout(1, 2, 1, 1, {"model.cp_comm_type=all_gather"}, "gather"))});
    list.push_back({model, experts(2, layout(2, 1, 2, 1, {two}))});
    if (!window) list.push_back({model, experts(2, layout(1, 2, 1, 1))});
  }
  list.push_back(
      {"deepseek_v2", experts(4, layout(2, 2, 1, 1, {"model.cp_comm_type=a2a"}, "a2a"))});
  list.push_back({"deepseek_v2_lite", experts(2, layout(2, 1, 1, 1))});
  list.push_back({"deepseek_v2_lite", experts(2, layout(1, 2, 1, 1))});
  list.push_back({"deepseek_v3", experts(2, layout(1, 1, 1, 2))});
  list.push_back({"deepseek_v3", experts(2, layout(2, 1, 2, 1))});
  list.push_back({"deepseek_v3", experts(2, layout(1, 2, 1, 1))});
  // Gradients of 10 and 8 compressed features can be cut into 2 chunks, but not into 4.
  list.push_back(
      {"deepseek_v3", experts(2, layout(2, 1, 2, 1, {two, "model.pipeline_schedule=zero_bubble"},
                                        "zero_bubble"))});
  list.push_back({"llama4_text", experts(2, layout(1, 1, 1, 2))});
  list.push_back({"llama4_text", experts(2, layout(2, 1, 2, 1, {two}))});
  list.push_back({"llama4_text", layout(2, 1, 1, 1, {}, "cut_experts")});
  list.push_back({"llama4_text", layout(1, 2, 1, 1, {"model.cp_comm_type=a2a"}, "a2a")});
  list.push_back(
      {"llama4_text", experts(2, layout(1, 1, 1, 2,
                                        {"ddp.data_parallel_sharding_strategy=optim_grads_params",
                                         "model.moe_token_dispatcher_type=allgather"},
                                        "sharded"))});
  list.push_back({"llama4_text", layout(2, 1, 1, 1,
                                        {"model.attention_backend=unfused",
                                         "model.recompute_granularity=selective",
                                         "model.recompute_modules=[core_attn,layernorm]"},
                                        "unfused_recompute")});
  // A bias of a softmax's choice, and others' in their places in files; weights that experts which
  // were not chosen have a part in, behind layer norms; an expert of all tokens with gate and up in
  // one tensor.
  for (const char* model :
       {"ernie4_5_moe", "minimax_m2", "phimoe", "granitemoeshared", "solar_open"}) {
    list.push_back({model, experts(2, layout(2, 1, 1, 1))});
    list.push_back({model, experts(2, layout(1, 2, 1, 1))});
    list.push_back({model, experts(2, layout(2, 1, 2, 1, {two}))});
    list.push_back(
        {model,
         experts(2, layout(1, 1, 1, 2, {"ddp.data_parallel_sharding_strategy=optim_grads_params"},
                           "sharded"))});
  }
  // Norms on compressed vectors with another epsilon.
  list.push_back({"moonlight", experts(2, layout(2, 1, 1, 1))});
  list.push_back({"moonlight", experts(2, layout(1, 2, 1, 1))});
  list.push_back({"moonlight", experts(2, layout(1, 1, 2, 2, {two}))});
  list.push_back(
      {"moonlight",
       experts(2, layout(1, 1, 1, 2, {"ddp.data_parallel_sharding_strategy=optim_grads_params"},
                         "sharded"))});
  list.push_back({"glm4_moe", experts(2, layout(2, 1, 2, 1))});
  list.push_back({"glm4_moe_lite", experts(2, layout(2, 1, 1, 1))});
  list.push_back({"granitemoe", experts(2, layout(2, 1, 1, 1))});
  list.push_back({"hunyuan_v1_moe", experts(2, layout(2, 1, 1, 1))});
  list.push_back({"hunyuan_v1_moe", experts(2, layout(1, 2, 1, 1))});
  list.push_back({"deepseek_v2",
                  experts(2, layout(2, 1, 1, 1,
                                    {"model.recompute_granularity=selective",
                                     "model.recompute_modules=[mla_up_proj,core_attn,layernorm]"},
                                    "recompute"))});
  return list;
}

class ExpertFamilies : public testing::TestWithParam<ModelLayout> {};

TEST_P(ExpertFamilies, MatchTheReference) {
  EXPECT_GT(test::expect_reference(GetParam(), kLimit), 20);
}

INSTANTIATE_TEST_SUITE_P(Layouts, ExpertFamilies, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace viaduct
