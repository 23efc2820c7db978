// Predictions of small tables of published runs: reasons, errors, constants.

#include "plan/score/score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/planning_defaults.h"
#include "plan/score/long_step.h"
#include "plan/score/published_cluster.h"
#include "plan/score/published_run.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Score score(const std::string& text, const ScoreConstants& constants = {}) {
  return score_table(parse_csv(text, "t.csv"), "t.csv", {.constants = constants, .threads = 2});
}

std::string error_of(const std::string& text) {
  try {
    score(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

const std::string kColumns =
    "id,framework,hardware,n_gpus,model,precision,global_batch,micro_batch,seq_len,tp,pp,"
    "tokens_per_sec_per_gpu,step_time_s,memory_gb,notes\n";

TEST(Score, EveryRowIsPredictedOrListedWithItsReason) {
  const Score result =
      score(kColumns +
            "good,x,H100-SXM,8,mpt-125m,bf16,64,8,2048,1,1,100000,,,\n"
            "by-time,x,h100-sxm,8,mpt-125m,bf16,64,8,2048,1,1,,0.1,,\n"
            "again,x,H100-SXM,8.0,mpt-125m,bf16,64,8,2048,1,1,200000,,,\n"
            "no-model,x,H100-SXM,8,mpt-125,bf16,64,8,2048,1,1,1,,,\n"
            "no-gpu,x,H100-SXN,8,mpt-125m,bf16,64,8,2048,1,1,1,,,\n"
            "no-kernels,x,MI300X,8,mpt-125m,bf16,64,8,2048,1,1,1,,,\n"
            "no-layout,x,H100-SXM,8,mpt-125m,bf16,64,8,2048,,,1,,,\n"
            "no-speed,x,H100-SXM,8,mpt-125m,bf16,64,8,2048,1,1,,,,\n"
            "bad-number,x,H100-SXM,8,mpt-125m,bf16,-4,8,2048,1,1,1,,,\n"
            "no-recipe,x,H100-SXM,8,mpt-125m,int4,64,8,2048,1,1,1,,,\n"
            "refused,x,H100-SXM,8,mpt-125m,bf16,63,8,2048,1,1,1,,,\n"
            "lora,x,H100-SXM,8,mpt-125m,bf16,64,8,2048,1,1,1,,,\"LoRA, rank 8\"\n");
  ASSERT_EQ(result.rows.size(), 4u);
  const ScoredRow &good = result.rows[0], &by_time = result.rows[1], &again = result.rows[2];
  EXPECT_EQ(good.id, "good");
  EXPECT_EQ(good.published, 100000);
  EXPECT_GT(good.predicted, 1000);
  EXPECT_DOUBLE_EQ(good.error(), good.predicted / 100000 - 1);
  EXPECT_NEAR(by_time.published, 64 * 2048 / 0.1 / 8, 1e-6);
  EXPECT_THAT(by_time.note, HasSubstr("from the step's seconds"));
  EXPECT_EQ(again.predicted, good.predicted);
  EXPECT_EQ(good.gpu, "h100-sxm");
  const ScoredRow& lora = result.rows[3];
  EXPECT_EQ(lora.id, "lora");
  EXPECT_GT(lora.predicted, 1000);
  EXPECT_NE(lora.predicted, good.predicted);
  EXPECT_THAT(lora.note, HasSubstr("adapters not stated"));
  std::map<std::string, std::string> reasons;
  for (const UnsupportedEntry& row : result.unsupported) reasons[row.id] = row.reason;
  EXPECT_EQ(reasons.size(), 8u);
  EXPECT_THAT(reasons["no-model"], HasSubstr("did you mean mpt-125m?"));
  EXPECT_THAT(reasons["no-gpu"], HasSubstr("nearest: h100-sxm"));
  EXPECT_THAT(reasons["no-kernels"], HasSubstr("no kernels"));
  EXPECT_THAT(reasons["no-layout"], HasSubstr("does not state the layout"));
  EXPECT_THAT(reasons["no-speed"], HasSubstr("no throughput stated"));
  EXPECT_THAT(reasons["bad-number"],
              HasSubstr("global_batch: expected a number above 0, found -4"));
  EXPECT_THAT(reasons["no-recipe"], HasSubstr("precision int4"));
  EXPECT_THAT(reasons["refused"], HasSubstr("63"));
}

TEST(Score, ConstantsOfAGpuScaleItsKernelsAlone) {
  const std::string rows = kColumns +
                           "h,x,H100-SXM,1,mpt-1b,bf16,8,8,2048,1,1,100000,,,\n"
                           "a,x,A100-80GB-SXM,1,mpt-1b,bf16,8,8,2048,1,1,100000,,,\n";
  const Score plain = score(rows), scaled = score(rows, {{"h100-sxm", 0.5}});
  ASSERT_EQ(scaled.rows.size(), 2u);
  EXPECT_LT(scaled.rows[0].predicted, 0.6 * plain.rows[0].predicted);
  EXPECT_GT(scaled.rows[0].predicted, 0.49 * plain.rows[0].predicted);
  EXPECT_EQ(scaled.rows[1].predicted, plain.rows[1].predicted);
}

TEST(Score, LongStepsAreTheirRoundsLongerThanShortOnes) {
  // 64 micro-batches, and 64 on two stages, with and without chunks: computed from four rounds, and
  // from the whole step.
  const std::string columns =
      "id,hardware,n_gpus,model,precision,global_batch,micro_batch,seq_len,tp,pp,vpp,"
      "tokens_per_sec_per_gpu\n";
  for (const std::string row : {"h,H100-SXM,1,mpt-125m,bf16,64,1,2048,1,1,,1000\n",
                                "h,H100-SXM,2,mpt-125m,bf16,64,1,2048,1,2,,1000\n",
                                "h,H100-SXM,4,mpt-125m,bf16,64,1,2048,1,4,3,1000\n"}) {
    SCOPED_TRACE(row);
    const Score result = score(columns + row);
    const CsvTable table = parse_csv(columns + row, "t.csv");
    const PublishedRun run = published_run(PublishedRow(table, table.rows[0]));
    EXPECT_EQ(run.micro_batches, 64);
    EXPECT_TRUE(LongStep(run.micro_batches, run.stages).is_shortened());
    const Cluster cluster = load_cluster("dgx-h100");
    PredictionSettings settings = prediction_settings(cluster);
    settings.ops.own_kernels = false;  // as of every published run
    std::vector<std::string> overrides = run.overrides;
    overrides.emplace_back("model.attention_backend=flash");
    const Prediction whole = predict(
        prepare_run(load_run_config({}, overrides, planning_defaults(cluster))), cluster, settings);
    ASSERT_EQ(result.rows.size(), 1u);
    EXPECT_NEAR(result.rows[0].predicted, whole.tokens_per_second_per_gpu,
                2e-3 * whole.tokens_per_second_per_gpu);
  }
}

TEST(Score, HostsOfOtherTrainersLaunchTheProductsOfEachExpertUnlessTheStepIsCaptured) {
  const std::string columns =
      "id,framework,hardware,n_gpus,model,precision,global_batch,micro_batch,seq_len,tp,pp,ep,"
      "cuda_graph,tokens_per_sec_per_gpu\n";
  const auto seconds = [&](const std::string& framework, const std::string& graph) {
    const CsvTable table =
        parse_csv(columns + "h," + framework + ",H100-SXM,8,mixtral-8x7b,bf16,64,1,2048,1,1,8," +
                      graph + ",1000\n",
                  "t.csv");
    return published_run(PublishedRow(table, table.rows[0])).expert_product_seconds;
  };
  EXPECT_GT(seconds("Megatron-Bridge 26.02", ""), 0);
  EXPECT_EQ(seconds("Megatron-Bridge 26.02", "transformer_engine:moe_router"),
            seconds("NeMo 25.04", ""));
  EXPECT_EQ(seconds("Megatron-Bridge 26.06", "full_iteration"), 0);
  EXPECT_EQ(seconds("MaxText", ""), 0);
  EXPECT_EQ(seconds("NeMo Automodel (PyTorch DTensor)", ""), 0);
}

/// TransformerEngine issue 2053: a product of one kernel on a Xeon's host and on Grace's.
TEST(Score, HostsThatRunPyTorchOpByOpTakeLongerForEachLaunch) {
  const auto seconds = [&](const std::string& framework, const std::string& hardware,
                           const std::string& notes) {
    const CsvTable table = parse_csv(
        "id,framework,hardware,n_gpus,model,precision,global_batch,micro_batch,seq_len,"
        "tp,pp,notes,tokens_per_sec_per_gpu\nh," +
            framework + "," + hardware + ",8,mpt-125m,bf16,64,1,2048,1,1," + notes + ",1000\n",
        "t.csv");
    return published_run(PublishedRow(table, table.rows[0])).launch_seconds;
  };
  EXPECT_EQ(seconds("Megatron-Bridge 26.02", "H100-SXM", ""), 13.48e-6);
  EXPECT_EQ(seconds("Megatron-Bridge 26.02", "GB200", ""), 37.08e-6);
  EXPECT_EQ(seconds("llm-foundry", "H100-SXM", ""), 13.48e-6);
  EXPECT_EQ(seconds("NeMo Automodel", "H100-SXM", "torch.compile"), std::nullopt);
  EXPECT_EQ(seconds("MaxText", "H100-SXM", ""), std::nullopt);
  EXPECT_EQ(seconds("llmq", "H100-SXM", ""), std::nullopt);
}

/// Rows that differ only in what a release's kernels take are not one prediction.
TEST(Score, KernelsOfOneReleaseSlowItsRowsAlone) {
  const std::string rest = ",GB200,8,gpt-oss-20b,fp8-mx,8,1,8192,1,1,8,1000\n";
  const Score result = score(
      "id,framework,hardware,n_gpus,model,precision,global_batch,micro_batch,seq_len,tp,pp,ep,"
      "tokens_per_sec_per_gpu\na,Megatron-Bridge 26.06" +
      rest + "b,Megatron-Bridge 26.06.01" + rest + "c,Megatron-Bridge 26.08" + rest);
  ASSERT_EQ(result.rows.size(), 3u);
  EXPECT_LT(result.rows[1].predicted, 0.95 * result.rows[0].predicted);
  EXPECT_EQ(result.rows[2].predicted, result.rows[0].predicted);
}

TEST(Score, StepsOfFewOrUnevenRoundsAreNotShortened) {
  EXPECT_FALSE(LongStep(20, 4).is_shortened());
  EXPECT_FALSE(LongStep(41, 4).is_shortened());
  EXPECT_FALSE(LongStep(0, 4).is_shortened()) << "micro-batches that do not divide the batch";
  EXPECT_TRUE(LongStep(24, 4).is_shortened());
  EXPECT_EQ(LongStep(24, 4).shown(), 16);
  EXPECT_EQ(LongStep(20, 4).shown(), 20);
}

TEST(Score, RacksOf72AreUsedSoThatGroupsDoNotLieAcrossTwo) {
  const auto domain = [](const std::string& hardware, int gpus) {
    const CsvTable table = parse_csv(
        "id,framework,hardware,n_gpus\nr,x," + hardware + "," + std::to_string(gpus) + "\n",
        "t.csv");
    return published_cluster(PublishedRow(table, table.rows[0])).domain;
  };
  EXPECT_EQ(domain("GB200", 64), 72) << "all in one rack";
  EXPECT_EQ(domain("GB200", 256), 64);
  EXPECT_EQ(domain("GB300", 576), 72) << "eight whole racks";
  EXPECT_EQ(domain("GB200", 100), 72);
  EXPECT_EQ(domain("H100-SXM", 256), 8);
}

TEST(Score, MemoryIsJudgedBesideThroughput) {
  const Score result =
      score(kColumns +
            "fits,x,H100-SXM,8,mpt-125m,bf16,64,8,2048,1,1,100000,,20,\n"
            "fails,x,H100-SXM,1,mpt-30b,bf16,1,1,2048,1,1,,,70,OOM in the second step\n");
  ASSERT_EQ(result.memory.size(), 2u);
  EXPECT_TRUE(result.memory[0].fits());
  EXPECT_TRUE(result.memory[0].published_fits);
  EXPECT_DOUBLE_EQ(*result.memory[0].published_bytes, 20.0 * (1 << 30));
  EXPECT_FALSE(result.memory[1].fits());
  EXPECT_FALSE(result.memory[1].published_fits);
  EXPECT_FALSE(result.memory[1].published_bytes.has_value());
  ASSERT_EQ(result.unsupported.size(), 1u);
  EXPECT_THAT(result.unsupported[0].reason, HasSubstr("no throughput stated"));
}

TEST(Score, TablesOfOtherKindsAreRefused) {
  EXPECT_THAT(error_of("id,model\nx,y\n"),
              AllOf(HasSubstr("hardware"), HasSubstr("tokens_per_sec_per_gpu"),
                    HasSubstr("mem_max_allocated_bytes")));
}

TEST(Score, SummariesAreOfRelativeErrors) {
  std::vector<ScoredRow> rows;
  EXPECT_FALSE(summary_of(rows).has_value());
  for (const double error : {-0.1, 0.2, 0.3, -0.4}) rows.push_back({"r", "g", 1 + error, 1, ""});
  const ErrorSummary summary = *summary_of(rows);
  EXPECT_NEAR(summary.mape, 0.25, 1e-12);
  EXPECT_NEAR(summary.median, 0.25, 1e-12);
  EXPECT_NEAR(summary.p90, 0.4, 1e-12);
  EXPECT_NEAR(summary.bias, 0, 1e-12);
  rows.assign(10, {"r", "g", 1.1, 1, ""});
  rows[9].predicted = 3;
  EXPECT_NEAR(summary_of(rows)->p90, 0.1, 1e-12);
}

TEST(Score, FilesOfConstantsHaveOneNumberForAGpu) {
  const auto problem = [](const char* text) {
    try {
      parse_score_constants(text, "c.yaml");
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(parse_score_constants("step_share: {b200: 0.72}", "c.yaml").at("b200"), 0.72);
  EXPECT_THAT(problem("step_share: {b20: 0.7}"), HasSubstr("unknown GPU b20, did you mean b200?"));
  EXPECT_THAT(problem("step_share: {b200: 0.1}"), HasSubstr("above 0.3"));
  EXPECT_THAT(problem("step_share: {b200: 1}\nhost: 3"), HasSubstr("unknown field host"));
  EXPECT_THAT(problem("b200: 0.7"), HasSubstr("expected one field, step_share"));
}

}  // namespace
}  // namespace viaduct
