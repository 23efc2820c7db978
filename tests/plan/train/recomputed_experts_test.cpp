// What of a layer with experts runs again in the backward: products and exchanges that make what
// it keeps, and none that only make its output.

#include <gtest/gtest.h>

#include <map>

#include "engine/dry_run.h"
#include "run/parallel_settings.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

/// Calls of each op, and operations of each group.
using Calls = std::map<std::string, int64_t>;

const Overrides kAgain{"model.recompute_granularity=full", "model.recompute_method=uniform",
                       "model.recompute_num_layers=1"};

Calls step_calls(const Overrides& run) {
  const DryRun dry = dry_run(test::setup_of(tiny_run() + run), {0});
  Calls calls;
  for (const KernelUse& use : dry.kernels) calls[use.op] += use.calls;
  for (const GroupTraffic& t : dry.traffic)
    calls[fmt::format("{} {}", t.group, choice_name(t.operation))] += t.count;
  return calls;
}

/// Those of a layer and micro-batch that are made again: of two layers, each by itself.
Calls made_again(const Overrides& more, const Overrides& policy = kAgain) {
  const Overrides run = Overrides{"model.family=qwen3_moe",   "model.num_moe_experts=8",
                                  "model.moe_router_topk=2",  "model.moe_ffn_hidden_size=16",
                                  "model.num_layers=2",       "train.micro_batch_size=1",
                                  "train.global_batch_size=4"} +
                        more;
  const int64_t layers = 2 * micro_batches(test::setup_of(tiny_run() + run).config);
  const Calls kept = step_calls(run);
  Calls again;
  for (const auto& [name, count] : step_calls(run + policy)) {
    const int64_t extra = count - (kept.contains(name) ? kept.at(name) : 0);
    EXPECT_EQ(extra % layers, 0) << name;
    if (extra != 0) again[name] = extra / layers;
  }
  return again;
}

const Overrides kModule{"model.recompute_granularity=selective", "model.recompute_modules=[moe]"};
const Overrides kRanks{"dist.ranks=2", "model.expert_model_parallel_size=2"};
Overrides dispatched(const std::string& dispatcher) {
  return {"model.moe_token_dispatcher_type=" + dispatcher};
}

TEST(RecomputedExperts, MakeNoResults) {
  const Calls again = made_again({});
  EXPECT_EQ(again.at("grouped_gemm"), 1) << "the first product of experts, not the second";
  EXPECT_EQ(again.at("activation_forward"), 1);
  EXPECT_EQ(again.at("route"), 1);
  EXPECT_FALSE(again.contains("combine_rows"));
  EXPECT_EQ(made_again({}, kModule).at("grouped_gemm"), 1);
}

// Every rank of the group leaves out the same exchanges: those of results.
TEST(RecomputedExperts, SendNoResultsHome) {
  for (const char* dispatcher : {"alltoall", "flex"}) {
    for (const Overrides& policy : {kAgain, kModule}) {
      const Calls again = made_again(kRanks + dispatched(dispatcher), policy);
      EXPECT_EQ(again.at("expert_tp_ep all_to_all"), 2) << dispatcher << ": counts and rows";
      EXPECT_EQ(again.at("grouped_gemm"), 1) << dispatcher;
    }
  }
  const Calls gathered = made_again(kRanks + dispatched("allgather"));
  EXPECT_EQ(gathered.at("expert_tp_ep all_gather"), 3) << "choices, tokens and weights";
  EXPECT_FALSE(gathered.contains("expert_tp_ep reduce_scatter"));
  EXPECT_EQ(gathered.at("grouped_gemm"), 1);
  EXPECT_FALSE(gathered.contains("combine_rows"));

  const Calls by_domain = made_again(
      Overrides{"dist.ranks=4", "model.expert_model_parallel_size=4", "dist.nvlink_domain_size=2"} +
      dispatched("flex"));
  EXPECT_EQ(by_domain.at("ep.outer all_to_all"), 4) << "counts, choices, tokens and weights";
  EXPECT_EQ(by_domain.at("expert_tp_ep.inner all_to_all"), 2) << "counts and rows";
  EXPECT_EQ(by_domain.at("grouped_gemm"), 1);
  EXPECT_FALSE(by_domain.contains("combine_rows"));
}

// Without a gate the second product and its exchange over tensor ranks make only the result; the
// gate's gradient reads what they make.
TEST(RecomputedExperts, MakeNoResultOfASharedExpertThatNothingReads) {
  const Overrides shared{"model.moe_shared_expert_intermediate_size=32"},
      gated = shared + Overrides{"model.family=qwen2_moe"},
      ungated = shared + Overrides{"model.family=deepseek_v2",    "model.q_lora_rank=24",
                                   "model.kv_lora_rank=16",       "model.qk_head_dim=12",
                                   "model.qk_pos_emb_head_dim=8", "model.v_head_dim=10"},
      beside{"model.moe_shared_expert_overlap=true"},
      tensor = kRanks + Overrides{"model.tensor_model_parallel_size=2",
                                  "model.expert_tensor_parallel_size=1"};
  EXPECT_EQ(made_again(ungated, kModule).at("gemm"), 2) << "of the router, and the first one";
  EXPECT_EQ(made_again(ungated + kRanks + beside, kModule).at("gemm"), 2);
  EXPECT_FALSE(made_again(ungated + tensor, kModule).contains("tp reduce_scatter"));
  const Calls weighed = made_again(gated, kModule);
  EXPECT_EQ(weighed.at("gemm"), 4) << "also the second one, and that of the gate";
  EXPECT_FALSE(weighed.contains("combine_rows")) << "the gate multiplies nothing";
  EXPECT_TRUE(made_again(gated + tensor, kModule).contains("tp reduce_scatter"));
}

}  // namespace
}  // namespace viaduct
