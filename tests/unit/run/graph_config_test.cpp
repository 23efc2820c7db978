// Settings that graphs do not support are refused with a GPU, and noted without one.

#include "run/graph_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "run/setup.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

const Overrides kWhole{"dist.device=cuda", "model.cuda_graph_impl=full_iteration"};
const Overrides kExperts{"model.family=qwen2_moe", "model.num_moe_experts=4",
                         "model.moe_shared_expert_intermediate_size=32"};
const Overrides kTwoExpertRanks =
    kExperts + Overrides{"dist.ranks=2", "model.expert_model_parallel_size=2"};
const Overrides kPadded{"model.moe_expert_capacity_factor=1",
                        "model.moe_pad_expert_input_to_capacity=true"};

std::string refusal(const Overrides& more) {
  try {
    load_run_config({}, tiny_run() + more);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(GraphConfig, StepsAreCapturedInAnyLayoutAndFormat) {
  for (const Overrides& more : std::vector<Overrides>{
           {},
           {"mixed_precision=bf16_mixed"},
           {"mixed_precision=bf16_with_fp8_delayed_scaling_mixed"},
           {"dist.ranks=8", "model.tensor_model_parallel_size=2",
            "model.pipeline_model_parallel_size=2", "ddp.bucket_size=2000"},
           {"dist.ranks=2", "ddp.data_parallel_sharding_strategy=optim_grads"},
           {"dist.ranks=2", "ddp.data_parallel_sharding_strategy=optim_grads_params"},
           {"model.cpu_offloading=true", "model.cpu_offloading_num_layers=1"},
           {"optimizer.optimizer_cpu_offload=true", "optimizer.optimizer_offload_fraction=1"},
           {"ddp.data_parallel_sharding_strategy=optim_grads_params", "model.cpu_offloading=true",
            "model.cpu_offloading_weights=true"},
           kExperts,
           kTwoExpertRanks + kPadded,
           kTwoExpertRanks + kPadded + Overrides{"model.moe_token_dispatcher_type=allgather"}})
    EXPECT_EQ(refusal(kWhole + more), "");
}

TEST(GraphConfig, WhatCannotBeCapturedIsRefused) {
  struct Row {
    Overrides settings;
    std::string why;
  };
  for (const Row& row : std::vector<Row>{
           {kTwoExpertRanks, "experts over 2 ranks"},
           {{"dist.ranks=2", "model.pipeline_model_parallel_size=2",
             "model.variable_seq_lengths=true"},
            "the shapes of messages"},
           {{"dataset.reset_attention_mask=true", "dataset.eod_id=1"}, "other documents"}}) {
    EXPECT_THAT(refusal(kWhole + row.settings),
                AllOf(HasSubstr("model.cuda_graph_impl: full_iteration with"), HasSubstr(row.why),
                      HasSubstr("cuda_graph_impl = ")));
    EXPECT_EQ(refusal(row.settings + Overrides{"model.cuda_graph_impl=full_iteration"}), "")
        << "without a GPU it has no effect: " << row.why;
  }
  EXPECT_THAT(refusal(kWhole + kTwoExpertRanks),
              HasSubstr("expected model.moe_pad_expert_input_to_capacity = true"));
  EXPECT_THAT(refusal({"dist.device=cuda", "model.cuda_graph_impl=transformer_engine"}),
              HasSubstr("a library that is not used here"));
  EXPECT_THAT(refusal({"dist.device=cuda", "model.cuda_graph_modules=[attn]"}),
              HasSubstr("model.cuda_graph_modules: modules are captured with"));
  EXPECT_THAT(refusal({"model.cuda_graph_impl=all"}),
              HasSubstr("none|local|transformer_engine|full_iteration"));
  EXPECT_THAT(refusal({"model.cuda_graph_warmup_steps=0"}), HasSubstr(">= 1"));
}

const Overrides kLayers{"dist.device=cuda", "model.cuda_graph_impl=local"};

TEST(GraphConfig, LayersAreCapturedInLayoutsThatStepsAreNot) {
  for (const Overrides& more : std::vector<Overrides>{
           {},
           {"model.cuda_graph_modules=[attn,mlp]"},
           {"model.cuda_graph_modules=[attn,mlp]", "model.parallel_block=true"},
           kExperts,
           kExperts + Overrides{"model.cuda_graph_modules=[moe]"},
           kExperts + Overrides{"model.moe_layer_freq=1", "model.parallel_block=true",
                                "model.cuda_graph_modules=[attn]"},
           kTwoExpertRanks + Overrides{"model.cuda_graph_modules=[attn,moe_router,moe_preprocess]"},
           kTwoExpertRanks + kPadded})
    EXPECT_EQ(refusal(kLayers + more), "");
}

TEST(GraphConfig, TheOlderSwitchIsTheCaptureOfLayers) {
  const auto impl_with = [](const std::string& setting) {
    return setup_of(tiny_run() + Overrides{setting}).config.graph.cuda_graph_impl;
  };
  EXPECT_EQ(impl_with("model.enable_cuda_graph=true"), GraphCapture::local);
  EXPECT_EQ(impl_with("recipe.model.config.enable_cuda_graph=false"), GraphCapture::none);
}

TEST(GraphConfig, ModulesThatCannotBeCapturedAreRefused) {
  const auto modules = [](const std::string& list) {
    return Overrides{"model.cuda_graph_modules=[" + list + "]"};
  };
  for (const auto& [settings, why] : std::vector<std::pair<Overrides, std::string>>{
           {modules("attnn"), "found 'attnn'; nearest: attn"},
           {modules("mlp") + Overrides{"model.parallel_block=true"},
            "attn and mlp of a parallel block (model.parallel_block) are one piece"},
           {modules("mamba"), "no layer of this model is a Mamba layer; expected attn"},
           {modules("moe"), "this model has no experts (model.num_moe_experts); expected attn"},
           {kExperts + Overrides{"model.moe_layer_freq=1"} + modules("mlp"),
            "each layer of this model has experts"},
           {kExperts + modules("moe_preprocess"), "expected [moe_router, moe_preprocess]"},
           {kExperts + modules("moe,moe_router"), "moe is the whole layer of experts"},
           {kTwoExpertRanks, "expected cuda_graph_modules = [attn, moe_router, moe_preprocess]"},
           {kTwoExpertRanks + modules("attn,moe"), "model.moe_pad_expert_input_to_capacity = true"},
           {{"dataset.reset_attention_mask=true", "dataset.eod_id=1"}, "other documents"}})
    EXPECT_THAT(refusal(kLayers + settings), HasSubstr(why));
}

TEST(GraphConfig, TheCpuSaysThatItHasNoEffect) {
  const RunSetup setup = setup_of(
      tiny_run() + Overrides{"model.cuda_graph_impl=full_iteration",
                             "model.cuda_graph_warmup_steps=2", "model.cuda_graph_modules=[attn]",
                             "profiling.use_nsys_profiler=true", "env_vars.NCCL_ALGO=Ring"});
  for (const char* name :
       {"model.cuda_graph_impl", "model.cuda_graph_warmup_steps", "model.cuda_graph_modules",
        "profiling.use_nsys_profiler", "env_vars.NCCL_ALGO"})
    EXPECT_THAT(setup.notes, Contains(HasSubstr(name)));
}

}  // namespace
}  // namespace viaduct
