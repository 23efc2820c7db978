// Tables of measured memory: rows as configurations, and errors by component.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/planning_defaults.h"
#include "plan/score/published_memory.h"
#include "plan/score/published_recipe.h"
#include "plan/score/score.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMebi = 1 << 20;

const std::string kColumns =
    "id,test_case,hardware,n_gpus,layers,hidden,heads,gated,experts,topk,mla,untied,seq_len,"
    "micro_batch,global_batch,tp,pp,seq_parallel,dist_opt,precision,impl,mem_allocated_bytes,"
    "mem_max_allocated_bytes,notes";

Score score(const std::string& rows) {
  return score_table(parse_csv(kColumns + "\n" + rows, "t.csv"), "t.csv",
                     {.constants = {}, .threads = 2});
}

/// A row of 4 layers of width 512 with more columns.
std::string row_of(const std::string& gated, const std::string& experts) {
  return "r,,H100-SXM,8,4,512,8," + gated + "," + experts +
         ",2,0,0,1024,4,32,2,1,1,0,bf16,transformer_engine,,1,";
}

std::vector<std::string> overrides_of(const std::string& columns, const std::string& cells,
                                      const std::string& gated = "0",
                                      const std::string& experts = "") {
  const CsvTable table = parse_csv(
      kColumns + "," + columns + "\n" + row_of(gated, experts) + "," + cells + "\n", "t.csv");
  return published_memory_run(PublishedRow(table, table.rows[0])).overrides;
}

TEST(MemoryScore, TheLastStageIsComparedByComponent) {
  // The embedding of the first stage is twice as large as its layers: the last one has none.
  const Score result = score(
      "two,,A100-80GB-SXM,2,4,512,8,0,,,0,1,1024,4,32,1,2,0,0,bf16,transformer_engine,600000000,"
      "2000000000,\n"
      "peak,,A100-80GB-SXM,2,4,512,8,0,,,0,1,1024,4,32,1,2,0,0,bf16,transformer_engine,,"
      "2000000000,\n"
      "failed,,A100-80GB-SXM,2,4,512,8,0,,,0,1,1024,4,32,1,2,0,0,bf16,transformer_engine,"
      "600000000,2000000000,OOM\n");
  EXPECT_EQ(result.kind, PublishedKind::memory);
  ASSERT_EQ(result.memory.size(), 3u);
  const JudgedMemory& two = result.memory[0];
  EXPECT_EQ(two.published->staying, 6e8);
  EXPECT_EQ(two.published->passing, 1.4e9);
  EXPECT_EQ(two.library_bytes, (2 * 8 + 4) * kMebi + 2 * kMebi / 8);
  // Two layers, the final norm and the head, 18 bytes a parameter.
  const double width = 512, head = 50257 * width;
  const double layer = 12 * width * width + 13 * width;
  EXPECT_NEAR(two.predicted.staying - two.library_bytes, 18 * (2 * layer + 2 * width + head), 2e6);
  EXPECT_GT(two.predicted.passing, 4 * 1024 * 50257 * 4.0) << "logits in FP32";
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_EQ(result.rows[0].predicted, two.predicted.peak());
  EXPECT_EQ(result.rows[0].published, 2e9);
  EXPECT_FALSE(result.memory[1].published.has_value());
  EXPECT_FALSE(result.memory[2].published.has_value()) << "read before it failed";
  const std::vector<double> errors = errors_of(result.memory, &MemoryParts::staying);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_DOUBLE_EQ(errors[0], two.predicted.staying / 6e8 - 1);
}

TEST(MemoryScore, ModelsThatTheTrainerDoesNotHaveAreListed) {
  const Score result = score(
      "latent,,H100-SXM,8,4,512,8,0,,,1,0,1024,4,32,1,1,0,0,bf16,transformer_engine,,1000,\n"
      "taught,a_distill_test,H100-SXM,8,4,512,8,0,,,0,0,1024,4,32,1,1,0,0,bf16,local,,1000,\n"
      "experts,,H100-SXM,8,4,512,8,0,8,2,0,1,1024,4,32,1,1,0,1,bf16,transformer_engine,,1000,\n");
  EXPECT_EQ(result.rows.size(), 1u);
  ASSERT_EQ(result.unsupported.size(), 2u);
  EXPECT_THAT(result.unsupported[0].reason, HasSubstr("latent attention"));
  EXPECT_THAT(result.unsupported[1].reason, HasSubstr("teacher"));
}

TEST(PublishedRecipe, EmptyColumnsAreMegatronsDefaults) {
  EXPECT_THAT(overrides_of("attention_backend", ""),
              AllOf(Contains("model.hidden_dropout=0.1"), Contains("model.attention_dropout=0.1"),
                    Contains("model.cross_entropy_loss_fusion=false"),
                    Not(Contains("model.attention_backend=unfused"))));
  EXPECT_THAT(overrides_of("attention_backend", "", "1"), Contains("model.ffn_hidden_size=1344"))
      << "two thirds of four widths, down to a multiple of 64";
  EXPECT_THAT(overrides_of("attention_backend", "", "0", "8"),
              Contains("model.moe_token_dispatcher_type=allgather"));
}

TEST(PublishedRecipe, ColumnsBecomeOverrides) {
  EXPECT_THAT(
      overrides_of("attention_backend,hidden_dropout,linear_bias,position_embedding,fused_loss,"
                   "fused_gradients,optimizer_instances,last_stage_layers",
                   "unfused,0.0,0,learned_absolute,1,0,2,1"),
      AllOf(Contains("model.attention_backend=unfused"), Contains("model.hidden_dropout=0.0"),
            Contains("model.family=gpt2"), Contains("model.add_bias_linear=false"),
            Contains("model.cross_entropy_loss_fusion=true"),
            Contains("model.gradient_accumulation_fusion=false"),
            Contains("ddp.num_distributed_optimizer_instances=2"),
            Contains("model.num_layers_in_last_pipeline_stage=1")));
  EXPECT_THAT(overrides_of("microbatch_group,deferred_head_gradients", "5,2"),
              AllOf(Contains("model.microbatch_group_size_per_vp_stage=5"),
                    Contains("comm_overlap.defer_embedding_wgrad_compute=true"),
                    Contains("comm_overlap.wgrad_deferral_limit=2")));
  EXPECT_THAT(overrides_of("position_embedding", "rope"),
              AllOf(Contains("model.family=llama"), Contains("model.ffn_hidden_size=1376")))
      << "two thirds of 2048, a multiple of 16 on each of two ranks";
  EXPECT_THAT(overrides_of("dispatcher,fp8_weights", "alltoall,1", "0", "8"),
              AllOf(Contains("model.moe_token_dispatcher_type=alltoall"),
                    Contains("mixed_precision.fp8_param_gather=true")));
}

TEST(PublishedRecipe, GradientsOfFp16AreSummedInFp16) {
  const auto of = [](const char* precision) {
    const CsvTable table =
        parse_csv(kColumns + "\nr,,H100-SXM,8,4,512,8,0,,,0,0,1024,4,32,2,1,1,0," + precision +
                      ",local,,1,\n",
                  "t.csv");
    return published_memory_run(PublishedRow(table, table.rows[0])).overrides;
  };
  EXPECT_THAT(of("fp16"), Contains("ddp.grad_reduce_in_fp32=false"));
  EXPECT_THAT(of("bf16"), Not(Contains("ddp.grad_reduce_in_fp32=false")));
}

TEST(PublishedRecipe, LibrariesHoldWorkspacesAndBuffers) {
  const auto mebibytes = [](const std::string& impl, const std::string& cluster,
                            const std::string& workspace, const std::string& grouped) {
    const CsvTable table = parse_csv(
        "impl,heads,hidden,seq_len,micro_batch,tp,seq_parallel,cublas_workspace_mib,"
        "grouped_gemm\n" +
            impl + ",8,512,1024,4,2,1," + workspace + "," + grouped + "\n",
        "t.csv");
    return static_cast<double>(
               library_bytes(PublishedRow(table, table.rows[0]), load_cluster(cluster).gpu)) /
           kMebi;
  };
  // Two of PyTorch's and Transformer Engine's, and the gathered sequence of 4 rows.
  EXPECT_EQ(mebibytes("transformer_engine", "dgx-h100", "", ""), 2 * 32 + 32 + 4);
  EXPECT_EQ(mebibytes("transformer_engine", "dgx-a100", "", ""), 2 * 8.125 + 4 + 4);
  EXPECT_EQ(mebibytes("transformer_engine", "dgx-a100", "32", "1"), 2 * 32 + 5 * 4 + 4);
  EXPECT_EQ(mebibytes("local", "dgx-a100", "32", "1"), 2 * 32 + 32) << "scores of 4 heads";
}

}  // namespace
}  // namespace viaduct
