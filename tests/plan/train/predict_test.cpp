// The predicted step of one configuration.

#include "plan/predict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

Overrides model() {
  return tiny_run() + Overrides{"mixed_precision=bf16_mixed",
                                "model.num_layers=8",
                                "model.hidden_size=2048",
                                "model.num_attention_heads=16",
                                "model.ffn_hidden_size=8192",
                                "model.seq_length=2048",
                                "model.max_position_embeddings=2048",
                                "train.micro_batch_size=1",
                                "train.global_batch_size=32",
                                "ddp.grad_reduce_in_fp32=true",
                                "model.packed_weights=false"};
}

Prediction predicted(const Overrides& layout, const std::string& cluster = "dgx-h100") {
  return predict(setup_of(model() + layout), load_cluster(cluster));
}

double sum_of(const StageTime& time) {
  double sum = time.compute + time.optimizer + time.bubble + time.host;
  for (const auto& [group, seconds] : time.exposed) sum += seconds;
  return sum;
}

std::vector<Overrides> layouts() {
  return {{"dist.ranks=1"},
          {"dist.ranks=8", "model.tensor_model_parallel_size=2",
           "model.pipeline_model_parallel_size=2"},
          {"dist.ranks=8", "model.pipeline_model_parallel_size=4",
           "model.virtual_pipeline_model_parallel_size=2"},
          {"dist.ranks=16", "model.context_parallel_size=2",
           "ddp.data_parallel_sharding_strategy=optim_grads_params"}};
}

TEST(Predict, PartsOfAStagesTimeAddUpToTheStep) {
  for (const Overrides& layout : layouts()) {
    SCOPED_TRACE(layout.back());
    const Prediction p = predicted(layout);
    EXPECT_GT(p.step_seconds, 0);
    EXPECT_GT(p.mfu, 0);
    EXPECT_LT(p.mfu, 1);
    for (const StagePrediction& stage : p.stages)
      EXPECT_NEAR(sum_of(stage.time), p.step_seconds, 0.01 * p.step_seconds);
  }
}

TEST(Predict, APipelineHasTheBubbleOfItsSchedule) {
  // (p − 1) / n of a stage's work, for equal stages; virtual stages divide it.
  const Overrides pp{"dist.ranks=4", "model.pipeline_model_parallel_size=4",
                     "train.global_batch_size=8", "model.vocab_size=256"};
  const Prediction plain = predicted(pp);
  const Prediction virtual_stages =
      predicted(pp + Overrides{"model.virtual_pipeline_model_parallel_size=2"});
  double bubble = 0, virtual_bubble = 0, compute = 0;
  for (size_t i = 0; i < 4; ++i) {
    bubble += plain.stages[i].time.bubble, compute += plain.stages[i].time.compute;
    virtual_bubble += virtual_stages.stages[i].time.bubble;
  }
  EXPECT_NEAR(bubble / compute, 3.0 / 8, 0.15);
  EXPECT_LT(virtual_bubble, 0.8 * bubble);
  EXPECT_LT(virtual_stages.step_seconds, plain.step_seconds);
}

TEST(Predict, PipelinesOfRanksOnACpuAreTimed) {
  const Overrides cpu{"dist.ranks=4", "model.pipeline_model_parallel_size=2",
                      "train.global_batch_size=8"};
  for (const Overrides& more :
       {Overrides{}, Overrides{"model.virtual_pipeline_model_parallel_size=2"}}) {
    const Prediction p = predicted(cpu + more, "cpu");
    EXPECT_GT(p.mfu, 0.05);
    EXPECT_LT(p.mfu, 1);
    for (const StagePrediction& stage : p.stages)
      EXPECT_NEAR(sum_of(stage.time), p.step_seconds, 0.01 * p.step_seconds);
  }
}

double exposed_of_experts(const Prediction& p) {
  double seconds = 0;
  for (const StagePrediction& stage : p.stages) {
    const auto found = stage.time.exposed.find("expert_tp_ep");
    if (found != stage.time.exposed.end()) seconds += found->second;
  }
  return seconds / static_cast<double>(p.stages.size());
}

// The exchange of one micro-batch's rows runs while the other one computes; delayed weight
// gradients are one more computation to hide it.
TEST(Predict, ExchangesOfExpertsHideUnderAnotherMicroBatch) {
  const Overrides experts{"dist.ranks=16",
                          "model.family=qwen3_moe",
                          "model.num_moe_experts=16",
                          "model.moe_router_topk=4",
                          "model.moe_ffn_hidden_size=2048",
                          "model.num_layers=4",
                          "model.expert_model_parallel_size=16",
                          "train.global_batch_size=128"};
  const Prediction plain = predicted(experts);
  const std::string overlap = "comm_overlap.overlap_moe_expert_parallel_comm=true";
  const Prediction beside = predicted(experts + Overrides{overlap});
  const Prediction delayed =
      predicted(experts + Overrides{overlap, "comm_overlap.delay_wgrad_compute=true"});
  EXPECT_GT(exposed_of_experts(plain), 0.05 * plain.step_seconds);
  EXPECT_LT(exposed_of_experts(beside), 0.5 * exposed_of_experts(plain));
  EXPECT_LT(beside.step_seconds, plain.step_seconds);
  EXPECT_LT(delayed.step_seconds, plain.step_seconds);
  // Two micro-batches are in flight instead of one.
  EXPECT_GT(beside.stages[0].run.peak.bytes, plain.stages[0].run.peak.bytes);
}

// Also by domain: messages between domains are sent meanwhile.
TEST(Predict, ExchangesBetweenDomainsHideUnderAnotherMicroBatch) {
  const Overrides experts{"dist.ranks=16",
                          "dist.nvlink_domain_size=8",
                          "model.family=qwen3_moe",
                          "model.num_moe_experts=16",
                          "model.moe_router_topk=4",
                          "model.moe_ffn_hidden_size=2048",
                          "model.num_layers=4",
                          "model.expert_model_parallel_size=16",
                          "model.moe_token_dispatcher_type=flex",
                          "train.global_batch_size=128"};
  const Prediction plain = predicted(experts);
  const Prediction beside =
      predicted(experts + Overrides{"comm_overlap.overlap_moe_expert_parallel_comm=true"});
  const auto exposed = [](const Prediction& p) { return p.stages[0].time.exposed.at("ep.outer"); };
  EXPECT_GT(exposed(plain), 0.02 * plain.step_seconds);
  EXPECT_LT(exposed(beside), 0.5 * exposed(plain));
  EXPECT_LT(beside.step_seconds, plain.step_seconds);
}

/// Four experts on each of two ranks; six products of each expert in a layer and a micro-batch.
TEST(Predict, AHostThatLaunchesProductsOfEachExpertHoldsTheStepBack) {
  const RunSetup setup = setup_of(
      tiny_run("qwen3_moe") +
      Overrides{"model.num_moe_experts=8", "dist.ranks=2", "model.expert_model_parallel_size=2",
                "train.micro_batch_size=1", "train.global_batch_size=8",
                "mixed_precision=bf16_mixed", "model.packed_weights=false"});
  const Cluster cluster = load_cluster("dgx-h100");
  PredictionSettings settings = prediction_settings(cluster);
  const double without = predict(setup, cluster, settings).step_seconds;
  settings.expert_product_seconds = 1e-3;
  const auto layers = static_cast<double>(setup.model.layers);
  const double host = 1e-3 * 4 * 6 * layers * 4;
  const double with = predict(setup, cluster, settings).step_seconds;
  EXPECT_GT(with, host);
  EXPECT_LT(with, host + without);
}

TEST(Predict, AttentionOfALibraryKnowsTheSizeOfTheModelsHeads) {
  const Cluster cluster = load_cluster("dgx-h100");
  const auto seconds = [&](const char* heads, double narrow_share) {
    PredictionSettings settings = prediction_settings(cluster);
    settings.ops.library_attention = true;
    settings.ops.narrow_heads_share = narrow_share;
    return predict(setup_of(model() + Overrides{heads}), cluster, settings).step_seconds;
  };
  // 2,048 / 16 = 128 and 2,048 / 32 = 64.
  const char *wide = "model.num_attention_heads=16", *narrow = "model.num_attention_heads=32";
  EXPECT_EQ(seconds(wide, 0.1), seconds(wide, 1));
  EXPECT_GT(seconds(narrow, 0.1), 1.1 * seconds(narrow, 1));
}

TEST(Predict, AVHasLessBubbleThanVirtualStages) {
  const Overrides pp{"dist.ranks=4", "model.pipeline_model_parallel_size=4",
                     "model.virtual_pipeline_model_parallel_size=2", "train.global_batch_size=8",
                     "model.vocab_size=256"};
  const Prediction loop = predicted(pp),
                   v = predicted(pp + Overrides{"model.pipeline_schedule=dualpipe_v"});
  double loop_bubble = 0, v_bubble = 0;
  for (size_t i = 0; i < 4; ++i) {
    loop_bubble += loop.stages[i].time.bubble, v_bubble += v.stages[i].time.bubble;
    EXPECT_NEAR(sum_of(v.stages[i].time), v.step_seconds, 0.01 * v.step_seconds);
  }
  EXPECT_LT(v_bubble, loop_bubble);
}

TEST(Predict, SlowerNetworksTakeLonger) {
  const Overrides layout{"dist.ranks=64", "train.global_batch_size=64"};
  const Prediction fast = predicted(layout, "dgx-a100"), slow = predicted(layout, "cloud-a100-eth");
  EXPECT_GT(slow.step_seconds, fast.step_seconds);
  double exposed = 0;
  for (const auto& [group, seconds] : slow.stages[0].time.exposed) exposed += seconds;
  EXPECT_GT(exposed, 0);
}

TEST(Predict, NewerGpusAreFaster) {
  const Overrides layout{"dist.ranks=8"};
  EXPECT_LT(predicted(layout, "dgx-h100").step_seconds, predicted(layout, "dgx-a100").step_seconds);
  EXPECT_LT(predicted(layout, "dgx-b200").step_seconds, predicted(layout, "dgx-h100").step_seconds);
}

TEST(Predict, ProductsInFp8TakeLessTime) {
  const Overrides wide{"dist.ranks=8", "model.num_layers=3", "train.micro_batch_size=4"};
  const Overrides fp8 = wide + Overrides{"mixed_precision=bf16_with_fp8_delayed_scaling_mixed"};
  for (const char* cluster : {"dgx-h100", "dgx-b200"})
    EXPECT_LT(predicted(fp8, cluster).step_seconds, predicted(wide, cluster).step_seconds);
}

TEST(Predict, MfuIsOfTheDensePeakOfTheProductsFormat) {
  const auto peak = [](const std::string& recipe, const std::string& cluster) {
    const Prediction p = predicted({"dist.ranks=8", "mixed_precision=" + recipe}, cluster);
    EXPECT_NEAR(p.mfu * p.peak.tflops, p.model_tflops_per_gpu, 1e-9 * p.model_tflops_per_gpu);
    return p.peak.describe();
  };
  EXPECT_EQ(peak("bf16_mixed", "dgx-h100"), "BF16 dense of h100-sxm, 989.4 TFLOP/s");
  EXPECT_EQ(peak("bf16_with_mxfp8_mixed", "dgx-b200"), "FP8 dense of b200, 4500 TFLOP/s");
  EXPECT_EQ(peak("bf16_with_nvfp4_mixed", "dgx-b200"), "FP4 dense of b200, 9000 TFLOP/s");
}

TEST(Predict, SaysWhetherTheModelFits) {
  EXPECT_TRUE(predicted({"dist.ranks=1"}).fits);
  EXPECT_FALSE(predicted({"dist.ranks=1", "model.num_layers=80", "model.hidden_size=8192",
                          "model.num_attention_heads=64", "train.global_batch_size=1"})
                   .fits);
}

TEST(Predict, MemoryIsTheDryRuns) {
  RunSetup setup = setup_of(model() + layouts()[1]);
  const Prediction p = predict(setup, load_cluster("dgx-h100"));
  setup.config.cuda_target = CudaTarget::sm_90a;
  const std::vector<DryRun> stages = dry_run_stages(setup);
  ASSERT_EQ(p.stages.size(), stages.size());
  for (size_t i = 0; i < stages.size(); ++i)
    EXPECT_EQ(p.stages[i].run.peak.bytes, stages[i].peak.bytes);
}

TEST(Predict, OnAnyNumberOfThreadsAndFromStagesInAnyOrder) {
  const RunSetup setup = setup_of(model() + layouts()[2]);
  const Cluster cluster = load_cluster("dgx-h100");
  const Prediction one = predict(setup, cluster), three = predict(setup, cluster, {}, 3);
  EXPECT_EQ(three.step_seconds, one.step_seconds);
  StageRuns runs(setup, cluster, StageRuns::Keep::records);
  for (size_t stage = runs.stages(); stage-- > 0;) runs.run(stage);
  EXPECT_EQ(predict(runs, cluster, {}).step_seconds, one.step_seconds);
}

TEST(StageRuns, TheEndsAreRunFirstAndTheOthersIfTheyAreAskedFor) {
  const RunSetup setup =
      setup_of(model() + Overrides{"dist.ranks=4", "model.pipeline_model_parallel_size=4"});
  const Cluster cluster = load_cluster("dgx-h100");
  const Prediction whole = predict(setup, cluster);
  StageRuns ends(setup, cluster, StageRuns::Keep::memory);
  StageRuns all(setup, cluster, StageRuns::Keep::memory);
  ASSERT_EQ(ends.stages(), 4u);
  ThreadPool pool(2);
  const auto errors = run_stages(pool, {&ends, &all}, [&](const StageRuns& runs) {
    EXPECT_TRUE(runs.made(0) && runs.made(3));
    EXPECT_FALSE(runs.made(1) || runs.made(2));
    return &runs == &all;
  });
  EXPECT_FALSE(errors[0].early() || errors[1].early());
  EXPECT_FALSE(ends.made(1) || ends.made(2) || ends.all_made());
  ASSERT_TRUE(all.all_made());
  double peak = 0;
  for (size_t stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(all.dry_run_of(stage).peak.bytes, whole.stages[stage].run.peak.bytes);
    peak = std::max(peak, static_cast<double>(whole.stages[stage].run.peak.bytes));
  }
  EXPECT_EQ(all.peak_bytes(), peak);
  EXPECT_TRUE(is_too_large(all, peak - 1));
  EXPECT_FALSE(is_too_large(all, peak));
  // Work that has begun is continued.
  run_stages(pool, {&ends}, [](const StageRuns&) { return true; });
  EXPECT_EQ(ends.peak_bytes(), peak);
}

TEST(StageRuns, ARunOfOneStageIsNeverLeftOut) {
  StageRuns runs(setup_of(model() + Overrides{"dist.ranks=1"}), load_cluster("dgx-h100"),
                 StageRuns::Keep::memory);
  runs.run(0);
  EXPECT_FALSE(is_too_large(runs, 0));
}

}  // namespace
}  // namespace viaduct
