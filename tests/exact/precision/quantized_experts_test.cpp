// Runs with quantized products of experts: settings that change no bit, and the histories of each
// expert under delayed scaling, which every rank has.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "nn/delayed_scales.h"
#include "support/rank_trainers.h"

namespace viaduct {
namespace {

using namespace test;

Overrides experts_run(const std::string& recipe) {
  return tiny_run("mixtral") + Overrides{"mixed_precision=" + recipe,
                                         "mixed_precision.first_last_layers_bf16=false",
                                         "train.train_iters=3"};
}

TEST(QuantizedExperts, RecomputationChangesNoBit) {
  for (const char* recipe :
       {"bf16_with_fp8_current_scaling_mixed", "bf16_with_fp8_subchannel_scaling_mixed",
        "bf16_with_mxfp8_mixed", "bf16_with_nvfp4_mixed"}) {
    SCOPED_TRACE(recipe);
    const RunOutcome run = train_run(experts_run(recipe));
    for (const Overrides& change : std::vector<Overrides>{
             {"model.recompute_granularity=full", "model.recompute_method=uniform",
              "model.recompute_num_layers=1"},
             {"model.recompute_granularity=selective", "model.recompute_modules=[mlp]"},
             {"model.gradient_accumulation_fusion=false"},
             {"model.fine_grained_activation_offloading=true", "model.offload_modules=[mlp]",
              "model.min_offloaded_tensor_size=0"}}) {
      EXPECT_EQ(train_run(experts_run(recipe) + change).tensors, run.tensors) << change.front();
    }
  }
}

const Overrides kDelayed = experts_run("bf16_with_fp8_delayed_scaling_mixed") +
                           Overrides{"mixed_precision.fp8_amax_history_len=3"};

/// Values by name, from one rank.
std::map<std::string, std::vector<float>> histories(const Overrides& run) {
  std::vector<std::map<std::string, std::vector<float>>> by_rank(4);
  with_trainers(run, [&](Trainer& trainer, Communicator& world) {
    trainer.run();
    Engine& engine = trainer.engine();
    OpContext context = engine.context(false, false).ops;
    const Tensor all = engine.delayed_scales()->values(context);
    const std::vector<std::string> names = engine.delayed_scales()->names();
    for (size_t i = 0; i < names.size(); ++i) {
      const float* row = all.data<float>() + static_cast<int64_t>(i) * all.dim(1);
      by_rank[static_cast<size_t>(world.rank())][names[i]] = {row, row + all.dim(1)};
    }
  });
  for (const auto& values : by_rank) {
    if (values.empty()) continue;
    EXPECT_EQ(values, by_rank[0]);
  }
  return by_rank[0];
}

// One step: the experts' rows of all ranks together equal those of one rank.
TEST(QuantizedExperts, EveryRankHasTheHistoriesOfAllExperts) {
  const Overrides one{"train.train_iters=1"};
  const Overrides two{"dist.ranks=2", "model.expert_model_parallel_size=2"};
  const auto alone = histories(kDelayed + one);
  int of_experts = 0;
  for (const auto& [name, values] : alone) of_experts += name.find("experts.") != name.npos;
  EXPECT_EQ(of_experts, 2 * 2 * 3 * 8);  // layers, weights, operands, experts
  EXPECT_TRUE(alone.contains("blocks.1.mlp.experts.down.weight/output_gradient/3"));
  std::set<float> inputs;
  for (int e = 0; e < 4; ++e)
    inputs.insert(alone.at("blocks.1.mlp.experts.down.weight/input/" + std::to_string(e)).at(1));
  EXPECT_GT(inputs.size(), 1u) << "experts share a scale";
  for (const Overrides& more :
       std::vector<Overrides>{{}, {"mixed_precision.tp_only_amax_red=true"}}) {
    const auto shared = histories(kDelayed + one + two + more);
    ASSERT_EQ(shared.size(), alone.size());
    for (const auto& [name, values] : alone) {
      for (size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(shared.at(name)[i], values[i], 0.25 * values[i]) << name << " " << i;
    }
  }
}

TEST(QuantizedExperts, DelayedScalesCountOnceAndResume) {
  const RunOutcome run = train_run(kDelayed);
  for (const Overrides& change : std::vector<Overrides>{
           {"model.recompute_granularity=full", "model.recompute_method=uniform",
            "model.recompute_num_layers=1"},
           {"model.recompute_granularity=selective", "model.recompute_modules=[mlp]"},
           {"validation.eval_iters=1", "validation.eval_interval=2"}})
    EXPECT_EQ(train_run(kDelayed + change).tensors, run.tensors) << change.front();
}

}  // namespace
}  // namespace viaduct
