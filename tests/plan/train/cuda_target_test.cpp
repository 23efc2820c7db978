// The dry run of a step on a GPU: the run of the cpu with the GPU's kernels, workspace and streams.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/dry_run.h"
#include "run/parallel_settings.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

RunSetup setup_for(std::optional<CudaTarget> target, const Overrides& overrides) {
  RunSetup setup = setup_of(tiny_run() +
                            Overrides{"train.micro_batch_size=1", "train.global_batch_size=4",
                                      "mixed_precision=bf16_mixed", "model.packed_weights=false"} +
                            overrides);
  setup.config.cuda_target = target;
  return setup;
}

int64_t bytes_of(const DryRun& run, MemoryTag tag) {
  const auto found = run.peak.bytes_by_tag.find(std::string(memory_tag_name(tag)));
  return found == run.peak.bytes_by_tag.end() ? 0 : found->second;
}

std::vector<Overrides> layouts() {
  return {{},
          {"dist.ranks=4", "model.tensor_model_parallel_size=2"},
          {"dist.ranks=4", "model.pipeline_model_parallel_size=2", "model.num_layers=4",
           "model.virtual_pipeline_model_parallel_size=2"},
          {"dist.ranks=2", "ddp.data_parallel_sharding_strategy=optim_grads_params",
           "model.recompute_granularity=selective"},
          {"dist.ranks=2", "model.context_parallel_size=2", "optimizer.optimizer=muon"}};
}

TEST(CudaTarget, HoldsTheSameStateAndSendsTheSameBytesAsTheCpu) {
  for (const Overrides& layout : layouts()) {
    SCOPED_TRACE(layout.empty() ? "one rank" : layout.back());
    const DryRun cpu = dry_run(setup_for({}, layout));
    for (const CudaTarget target : kCudaTargets) {
      const DryRun gpu = dry_run(setup_for(target, layout));
      for (const MemoryTag tag : {MemoryTag::weights, MemoryTag::main_gradients,
                                  MemoryTag::master_weights, MemoryTag::moments})
        EXPECT_EQ(bytes_of(gpu, tag), bytes_of(cpu, tag)) << memory_tag_name(tag);
      ASSERT_EQ(gpu.traffic.size(), cpu.traffic.size());
      for (size_t i = 0; i < gpu.traffic.size(); ++i) {
        EXPECT_EQ(gpu.traffic[i].count, cpu.traffic[i].count);
        EXPECT_EQ(gpu.traffic[i].wire_bytes, cpu.traffic[i].wire_bytes);
      }
      EXPECT_EQ(gpu.host_reads, cpu.host_reads);
      EXPECT_EQ(gpu.parameters, cpu.parameters);
    }
  }
}

TEST(CudaTarget, AttentionByALibraryShowsInTheRecord) {
  RunSetup setup = setup_for(CudaTarget::sm_90a, {});
  const DryRun flash = dry_run(setup);
  setup.model.library_attention = true;
  const DryRun fused = dry_run(setup);
  const auto kernels = [](const DryRun& run) {
    std::set<std::string> names;
    for (const KernelUse& use : run.kernels)
      if (use.op == "attention_forward" || use.op == "attention_backward") names.insert(use.kernel);
    return names;
  };
  EXPECT_THAT(kernels(flash), testing::ElementsAre("flash_mma"));
  EXPECT_THAT(kernels(fused), testing::ElementsAre("cudnn"));
  EXPECT_GT(bytes_of(fused, MemoryTag::workspace) + fused.peak.bytes, flash.peak.bytes);
}

TEST(CudaTarget, AGraphOfAStepIsOneLaunchOfTheSameWork) {
  const RunSetup setup = setup_for(CudaTarget::sm_90a, {});
  const DryRun plain = dry_run(setup, {0}, nullptr, false, true);
  const DryRun whole = dry_run(
      setup_for(CudaTarget::sm_90a, {"model.cuda_graph_impl=full_iteration"}), {0}, nullptr, false);
  const auto launches = [](const DryRun& run, const std::string& op) {
    int64_t sum = 0;
    for (const KernelUse& use : run.kernels) sum += use.op == op ? use.launches : 0;
    return sum;
  };
  EXPECT_EQ(launches(whole, "graph"), 1);
  EXPECT_EQ(launches(plain, "graph"), 0);
  EXPECT_GT(launches(plain, "gemm"), 0);
  EXPECT_EQ(launches(whole, "gemm"), 0);
  EXPECT_EQ(launches(whole, "adamw"), launches(plain, "adamw")) << "the update is not captured";
  EXPECT_GT(launches(whole, "adamw"), 0);
  EXPECT_LT(whole.launches, plain.launches / 4);
  EXPECT_EQ(whole.cost.total_flops(), plain.cost.total_flops());
  EXPECT_EQ(whole.host_reads, plain.host_reads);
  // Rows of all micro-batches stay; each token has id, position, target, weight and index.
  const int64_t rows = 4 * (24 * setup.config.model.seq_length.value() + 8);
  EXPECT_GT(whole.peak.bytes, plain.peak.bytes);
  EXPECT_LE(whole.peak.bytes, plain.peak.bytes + rows);
}

TEST(CudaTarget, GraphsOfStepsHaveExpertsOverRanksThatNoHostReads) {
  const Overrides experts{"dist.ranks=2",
                          "model.family=qwen3_moe",
                          "model.num_moe_experts=4",
                          "model.moe_router_topk=2",
                          "model.expert_model_parallel_size=2",
                          "model.moe_expert_capacity_factor=1",
                          "model.moe_pad_expert_input_to_capacity=true"};
  for (const char* dispatcher : {"alltoall", "allgather"}) {
    const Overrides run =
        experts + Overrides{std::string("model.moe_token_dispatcher_type=") + dispatcher};
    const DryRun dense =
        dry_run(setup_for(CudaTarget::sm_90a, {"dist.ranks=2"}), {0}, nullptr, false);
    const DryRun whole = dry_run(
        setup_for(CudaTarget::sm_90a, run + Overrides{"model.cuda_graph_impl=full_iteration"}), {0},
        nullptr, false);
    EXPECT_EQ(whole.host_reads, dense.host_reads) << dispatcher;
    const DryRun plain = dry_run(setup_for(CudaTarget::sm_90a, run), {0}, nullptr, false);
    EXPECT_EQ(whole.cost.total_flops(), plain.cost.total_flops()) << dispatcher;
    EXPECT_LT(whole.launches, plain.launches / 4) << dispatcher;
  }
}

TEST(CudaTarget, GraphsOfLayersAreALaunchForEachPass) {
  const auto run_with = [](Overrides more) {
    return dry_run(setup_for(CudaTarget::sm_90a, more), {0}, nullptr, false);
  };
  const auto launches = [](const DryRun& run, const std::string& op) {
    int64_t sum = 0;
    for (const KernelUse& use : run.kernels) sum += use.op == op ? use.launches : 0;
    return sum;
  };
  const DryRun plain = run_with({}), layers = run_with({"model.cuda_graph_impl=local"}),
               attention =
                   run_with({"model.cuda_graph_impl=local", "model.cuda_graph_modules=[attn]"});
  const RunSetup setup = setup_for(CudaTarget::sm_90a, {});
  const int64_t passes = 2 * setup.model.layers * micro_batches(setup.config);
  EXPECT_EQ(launches(layers, "graph"), passes);
  EXPECT_EQ(launches(attention, "graph"), passes);
  EXPECT_EQ(launches(plain, "graph"), 0);
  // The embedding, the head and the update are launched as without graphs.
  for (const char* op : {"embedding_forward", "cross_entropy_forward", "adamw"}) {
    EXPECT_GT(launches(plain, op), 0) << op;
    EXPECT_EQ(launches(layers, op), launches(plain, op)) << op;
  }
  EXPECT_EQ(launches(layers, "attention_forward"), 0);
  EXPECT_LT(layers.launches, attention.launches);
  EXPECT_LT(attention.launches, plain.launches);
  for (const DryRun* one : {&layers, &attention}) {
    EXPECT_EQ(one->cost.total_flops(), plain.cost.total_flops());
    EXPECT_EQ(one->host_reads, plain.host_reads);
    EXPECT_EQ(one->peak.bytes, plain.peak.bytes);
  }
}

TEST(CudaTarget, ExpertsHoldTheSameStateAndSendTheSameBytesAsOnTheCpu) {
  for (const char* dispatcher : {"alltoall", "allgather", "flex"}) {
    const auto run_on = [&](std::optional<CudaTarget> target) {
      RunSetup setup =
          setup_of(tiny_run("qwen3_moe") +
                   Overrides{"model.num_moe_experts=8", "model.moe_router_topk=2", "dist.ranks=4",
                             "model.tensor_model_parallel_size=2",
                             "model.expert_model_parallel_size=2", "train.global_batch_size=8",
                             "mixed_precision=bf16_mixed", "model.packed_weights=false",
                             std::string("model.moe_token_dispatcher_type=") + dispatcher});
      setup.config.cuda_target = target;
      return dry_run(setup);
    };
    const DryRun cpu = run_on({}), gpu = run_on(CudaTarget::sm_90a);
    for (const MemoryTag tag : {MemoryTag::weights, MemoryTag::main_gradients,
                                MemoryTag::master_weights, MemoryTag::moments})
      EXPECT_EQ(bytes_of(gpu, tag), bytes_of(cpu, tag)) << memory_tag_name(tag);
    ASSERT_EQ(gpu.traffic.size(), cpu.traffic.size());
    for (size_t i = 0; i < gpu.traffic.size(); ++i)
      EXPECT_EQ(gpu.traffic[i].wire_bytes, cpu.traffic[i].wire_bytes);
    const auto flops = [](const DryRun& run) {
      double sum = 0;
      for (const KernelUse& use : run.kernels)
        if (use.op == "grouped_gemm") sum += use.cost.total_flops();
      return sum;
    };
    EXPECT_GT(flops(gpu), 0);
    EXPECT_EQ(flops(gpu), flops(cpu));
  }
}

TEST(CudaTarget, KernelsAreTheGpus) {
  const DryRun run = dry_run(setup_for(CudaTarget::sm_90a, {}));
  int64_t launches = 0;
  bool has_products = false;
  for (const KernelUse& use : run.kernels) {
    launches += use.launches;
    EXPECT_THAT(use.kernel, testing::Not(testing::HasSubstr("avx"))) << use.op;
    if (use.op != "gemm") continue;
    has_products = true;
    EXPECT_EQ(use.kernel, "cublaslt_bf16");
    EXPECT_GE(use.workspace_bytes, 32 << 20);
  }
  EXPECT_TRUE(has_products);
  EXPECT_EQ(launches, run.launches);
}

/// A GPU makes more operations for each byte of the head's weight that it reads.
TEST(CudaTarget, LogitsAreMadeInLargerChunksThanOnTheCpu) {
  const Overrides head{"model.vocab_size=262144", "model.seq_length=2048",
                       "model.max_position_embeddings=2048", "model.recompute_logits=true",
                       "train.global_batch_size=1"};
  const auto chunks = [&](std::optional<CudaTarget> target) {
    const DryRun run = dry_run(setup_for(target, head));
    const auto use = std::find_if(run.kernels.begin(), run.kernels.end(), [](const KernelUse& u) {
      return u.op == "cross_entropy_forward";
    });
    return use == run.kernels.end() ? 0 : use->calls;
  };
  EXPECT_EQ(chunks({}), 2048 / 128);
  EXPECT_EQ(chunks(CudaTarget::sm_90a), 2048 / 1024);
}

/// Sizes that support the products of all recipes, and layers between the first and the last.
const Overrides kWide{"model.num_layers=3", "model.hidden_size=128", "model.ffn_hidden_size=256",
                      "model.num_query_groups=2"};
const Overrides kDelayed{"mixed_precision=bf16_with_fp8_delayed_scaling_mixed"},
    kCurrent{"mixed_precision=bf16_with_fp8_current_scaling_mixed"},
    kBlocks{"mixed_precision=bf16_with_fp8_subchannel_scaling_mixed"},
    kMx{"mixed_precision=bf16_with_mxfp8_mixed"}, kFp4{"mixed_precision=bf16_with_nvfp4_mixed"};

struct RecipeRow {
  Overrides recipe;
  std::string kernel;
  std::vector<CudaTarget> targets;
};

TEST(CudaTarget, QuantizedProductsHoldAndSendTheBytesOfTheCpu) {
  const std::vector<CudaTarget> both{CudaTarget::sm_90a, CudaTarget::sm_100a},
      newest{CudaTarget::sm_100a};
  for (const RecipeRow& row :
       {RecipeRow{kDelayed, "cublaslt_fp8", both},
        RecipeRow{kCurrent + Overrides{"mixed_precision.fp8_param_gather=true",
                                       "ddp.data_parallel_sharding_strategy=optim"},
                  "cublaslt_fp8", both},
        RecipeRow{kBlocks, "cublaslt_fp8_blocks", both}, RecipeRow{kMx, "cublaslt_mxfp8", newest},
        RecipeRow{kFp4 + Overrides{"mixed_precision.fp4_param_gather=true"}, "cublaslt_nvfp4",
                  newest}}) {
    SCOPED_TRACE(row.recipe.front() + " " + row.recipe.back());
    const Overrides overrides = kWide + Overrides{"dist.ranks=2"} + row.recipe;
    const DryRun cpu = dry_run(setup_for({}, overrides));
    for (const CudaTarget target : row.targets) {
      SCOPED_TRACE(cuda_target_name(target));
      const DryRun gpu = dry_run(setup_for(target, overrides));
      for (const MemoryTag tag : {MemoryTag::weights, MemoryTag::main_gradients,
                                  MemoryTag::master_weights, MemoryTag::moments})
        EXPECT_EQ(bytes_of(gpu, tag), bytes_of(cpu, tag)) << memory_tag_name(tag);
      ASSERT_EQ(gpu.traffic.size(), cpu.traffic.size());
      for (size_t i = 0; i < gpu.traffic.size(); ++i)
        EXPECT_EQ(gpu.traffic[i].wire_bytes, cpu.traffic[i].wire_bytes);
      int64_t products = 0;
      for (const KernelUse& use : gpu.kernels) products += use.kernel == row.kernel ? 1 : 0;
      EXPECT_GT(products, 0);
    }
  }
}

// The row-wise input of a linear layer, or its largest magnitude, is made by the norm or the
// activation in front of it: of four layers of a block, all but the projection behind attention.
TEST(CudaTarget, ProducersLeaveNoPassOverTheirResults) {
  struct Row {
    Overrides recipe;
    std::string kernel;
    int64_t conversions, weights, maxima;  // of a layer in each micro-batch, once, of its operands
    bool codes;
  };
  for (const Row& row :
       {Row{kDelayed, "cublaslt_fp8", 2, 1, 1, false},
        Row{kCurrent, "cublaslt_fp8", 2, 1, 1, false},
        Row{kBlocks, "cublaslt_fp8_blocks", 4, 1, 0, true},
        Row{kMx, "cublaslt_mxfp8", 4, 2, 0, true}, Row{kFp4, "cublaslt_nvfp4", 4, 1, 2, false}}) {
    SCOPED_TRACE(row.kernel + " " + row.recipe.front());
    const RunSetup setup = setup_for(CudaTarget::sm_100a, kWide + row.recipe);
    const int64_t batches = micro_batches(setup.config);
    std::map<std::string, int64_t> calls;
    int64_t with_forms = 0;
    for (const KernelUse& use : dry_run(setup).kernels) {
      calls[use.op == "gemm" ? use.kernel : use.op] += use.calls;
      if (use.kernel == "rows_with_forms") with_forms += use.calls;
    }
    const int64_t layers = calls[row.kernel] / (3 * batches), produced = batches * layers / 4 * 3;
    ASSERT_GT(layers, 0);
    EXPECT_EQ(calls["convert_operand"], batches * layers * row.conversions + layers * row.weights -
                                            (row.codes ? produced : 0));
    EXPECT_EQ(calls["largest_magnitude"],
              row.maxima * (2 * batches * layers - produced) + (row.maxima > 0 ? layers : 0));
    EXPECT_GE(with_forms, batches * layers / 4 * 2) << "the two norms of each block";
  }
}

/// Rows of experts are quantized by a launch of their own, weights once a step; the products run at
/// the rate of FP16, and where warpgroups multiply at that of FP8.
TEST(CudaTarget, QuantizedProductsOfExpertsCountTheirOperands) {
  const std::vector<CudaTarget> hopper{CudaTarget::sm_90a}, newest{CudaTarget::sm_100a};
  for (const RecipeRow& row :
       {RecipeRow{kDelayed, "grouped_fp8_warpgroups", hopper},
        RecipeRow{kCurrent, "grouped_fp8_warpgroups", hopper},
        RecipeRow{kBlocks, "grouped_fp8_blocks_warpgroups", hopper},
        RecipeRow{kDelayed, "grouped_fp8", newest}, RecipeRow{kCurrent, "grouped_fp8", newest},
        RecipeRow{kBlocks, "grouped_fp8_blocks", newest}, RecipeRow{kMx, "grouped_mxfp8", newest},
        RecipeRow{kFp4, "grouped_nvfp4", newest}}) {
    const FlopFormat format =
        row.kernel.ends_with("warpgroups") ? FlopFormat::fp8 : FlopFormat::f16;
    for (const CudaTarget target : row.targets) {
      SCOPED_TRACE(row.kernel);
      RunSetup setup = setup_of(tiny_run("qwen3_moe") +
                                Overrides{"model.num_moe_experts=8", "model.moe_router_topk=2",
                                          "model.num_layers=3", "model.packed_weights=false"} +
                                row.recipe);
      setup.config.cuda_target = target;
      int64_t calls = 0, launches = 0;
      for (const KernelUse& use : dry_run(setup).kernels) {
        if (use.op != "grouped_gemm" || use.kernel != row.kernel) continue;
        calls += use.calls, launches += use.launches;
        EXPECT_EQ(use.cost.flops[static_cast<size_t>(format)], use.cost.total_flops());
        EXPECT_GT(use.workspace_bytes, 0);
      }
      EXPECT_GT(calls, 0);
      // Forward and data gradients quantize rows, weight gradients both operands.
      EXPECT_EQ(3 * launches, 7 * calls);
    }
  }
}

TEST(CudaTarget, AGenerationWithoutTheProductsOfARecipeIsNamed) {
  const auto refusal = [](CudaTarget target, const Overrides& recipe) -> std::string {
    try {
      dry_run(setup_for(target, kWide + recipe));
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(CudaTarget::sm_80, kCurrent),
              testing::HasSubstr("cuda:sm_80 has no products of quantized operands"));
  EXPECT_THAT(refusal(CudaTarget::sm_90a, kMx),
              testing::HasSubstr("cuda:sm_90a has no products of MXFP8 operands"));
  EXPECT_THAT(refusal(CudaTarget::sm_90a, kFp4),
              testing::HasSubstr("cuda:sm_90a has no products of NVFP4 operands"));
}

TEST(CudaTarget, UsesOfKernelsAreTheWholeStep) {
  StepRecord record;
  const DryRun run = dry_run(setup_for({}, {}), {0}, &record);
  const SequenceWindow step = run.windows[static_cast<size_t>(MemorySequence::step)];
  int64_t calls = 0, uses = 0;
  for (const OpEntryRecord& op : record.ops()) calls += op.at >= step.begin && op.at < step.end;
  for (const KernelUse& use : run.kernels) uses += use.calls;
  EXPECT_GT(calls, 0);
  EXPECT_EQ(uses, calls);
}

}  // namespace
}  // namespace viaduct
