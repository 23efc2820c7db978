// Durations of kernels and collectives on clusters of the catalog.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "hardware/kernel_counts.h"
#include "plan/calibrated_time.h"
#include "plan/collective_time.h"
#include "plan/op_time.h"

namespace viaduct {
namespace {

OpEntryRecord product(double flops, int64_t bytes) {
  OpEntryRecord op;
  op.op = "gemm";
  op.cost.flops[static_cast<size_t>(FlopFormat::bf16)] = flops;
  op.cost.bytes_read = bytes;
  return op;
}

TEST(OpTime, LargeProductsReachTheirShareOfTheMeasuredRate) {
  const Gpu gpu = load_gpu("h100-sxm");
  const OpTime time(gpu);
  const double flops = 1e15;
  const double rate = gpu.measured_flops.at("bf16") * OpTimeSettings().product_share;
  EXPECT_NEAR(time.seconds(product(flops, 1000)), flops / rate, 1e-4);
  // Twice the work takes less than twice the time, and never less than the roofline allows.
  EXPECT_LT(time.seconds(product(2e10, 1000)), 2 * time.seconds(product(1e10, 1000)));
  EXPECT_GT(time.seconds(product(1e10, 1000)), 1e10 / rate);
}

TEST(OpTime, ASteadyRateReplacesTheShareOfTheBestOne) {
  Gpu gpu = load_gpu("b200");
  const double steady = gpu.steady_flops.at("bf16");
  EXPECT_LT(steady, gpu.measured_flops.at("bf16") * OpTimeSettings().product_share);
  const OpTime time(gpu);
  EXPECT_NEAR(time.seconds(product(1e15, 1000)), 1e15 / steady, 1e-4);
  EXPECT_DOUBLE_EQ(time.least_seconds(1e15, OpKind::product, false), 1e15 / steady);
  // Attention has its share of the best rate.
  OpEntryRecord attention = product(1e15, 1000);
  attention.op = "attention_forward";
  const double kept = time.seconds(attention);
  gpu.steady_flops.clear();
  EXPECT_EQ(OpTime(gpu).seconds(attention), kept);
}

// Otherwise bounds of time would be those of slower products than the table has.
TEST(CalibratedCluster, ATableOfAGpuReplacesTheSteadyRate) {
  const Cluster cluster = load_cluster("dgx-b200");
  Calibration table;
  table.machine = {.kernels = "cuda:sm_100a", .memory_bytes = int64_t{180} << 30};
  table.machine.gpu = cluster.gpu.reported_names.at(0);
  table.gemm = {{"forward", "bf16", 8192, 8192, 8192, 1500}};
  OpTimeSettings settings;
  settings.product_share = 1;
  const OpTime time(calibrated_cluster(cluster, table).gpu, settings);
  EXPECT_DOUBLE_EQ(time.least_seconds(1e15, OpKind::product, false), 1e15 / 1500e12);
}

TEST(OpTime, ADelayOfActivationsGradientsIsForEachOfTheirBytes) {
  const Gpu gpu = load_gpu("gb200");
  const OpTime slow(gpu, {.activation_gradient_delay = 4e-12}), usual(gpu);
  OpEntryRecord op{.op = "activation_backward"};
  op.cost.bytes_read = 600000000, op.cost.bytes_written = 400000000;
  EXPECT_NEAR(slow.seconds(op) - usual.seconds(op), 4e-3, 1e-9);
  for (const char* other : {"activation_forward", "grouped_gemm"}) {
    op.op = other;
    EXPECT_EQ(slow.seconds(op), usual.seconds(op)) << other;
  }
}

/// 4,096 tokens of 64 heads of 64 and 8 of keys, 4 rows: cuDNN takes 0.210 and 0.465 ms on GB200.
TEST(OpTime, AttentionWithShortWindowsIsBoundByPassesOverItsOperands) {
  OpTimeSettings settings{.library_attention = true};
  settings.head_size = 64;
  const OpTime time(load_gpu("gb200"), settings);
  OpEntryRecord forward{.op = "attention_forward"}, backward{.op = "attention_backward"};
  const double pairs = 4.0 * 4096 * 128 * 64;
  forward.cost.flops[static_cast<size_t>(FlopFormat::bf16)] = 2 * pairs * 128;
  backward.cost.flops[static_cast<size_t>(FlopFormat::bf16)] = 5 * pairs * 128;
  forward.cost.bytes_read = 306180000, backward.cost.bytes_read = 1291800000;
  EXPECT_NEAR(time.seconds(forward) + time.seconds(backward), 0.675e-3, 0.02e-3);
  // All keys before a token: the products take longer.
  forward.cost.flops[static_cast<size_t>(FlopFormat::bf16)] *= 16;
  const double seconds = time.seconds(forward);
  forward.cost.bytes_read = 0;
  EXPECT_EQ(time.seconds(forward), seconds);
}

/// Kernels of experts multiply FP16, whatever their operands are; those of others may not.
TEST(OpTime, QuantizedProductsOfExpertsRunAsFp16UnlessOtherKernelsDo) {
  const Gpu gpu = load_gpu("h100-sxm");
  OpEntryRecord experts{.op = "grouped_gemm", .kernel = "grouped_fp8"};
  experts.cost.flops[static_cast<size_t>(FlopFormat::f16)] = 1e15;
  OpEntryRecord dense{.op = "gemm", .kernel = "cublaslt_fp8"};
  OpEntryRecord half{.op = "gemm", .kernel = "cublaslt_f16"};
  dense.cost.flops[static_cast<size_t>(FlopFormat::fp8)] = 1e15;
  half.cost.flops[static_cast<size_t>(FlopFormat::f16)] = 1e15;
  const OpTime ours(gpu, {.own_kernels = false}),
      theirs(gpu, {.narrow_experts = true, .own_kernels = false});
  EXPECT_EQ(ours.seconds(experts), ours.seconds(half));
  EXPECT_EQ(theirs.seconds(experts), theirs.seconds(dense));
  EXPECT_EQ(theirs.seconds(half), ours.seconds(half));
  experts.kernel = "grouped_tiles";
  EXPECT_EQ(theirs.seconds(experts), ours.seconds(half));
}

TEST(OpTime, NarrowProductsRunAtTheirOwnRate) {
  const Gpu gpu = load_gpu("h100-sxm");
  const OpTime time(gpu);
  OpEntryRecord fp8 = product(0, 1000);
  fp8.cost.flops[static_cast<size_t>(FlopFormat::fp8)] = 1e15;
  EXPECT_NEAR(time.seconds(product(1e15, 1000)) / time.seconds(fp8),
              gpu.measured_flops.at("fp8") / gpu.measured_flops.at("bf16"), 0.01);
  // The bound of a model without such products does not use their rate.
  EXPECT_GT(time.least_seconds(1e15, OpKind::product, false), time.seconds(fp8));
  EXPECT_LE(time.least_seconds(1e15, OpKind::product, true), time.seconds(fp8));
  // GPUs of this generation have no FP4.
  fp8.cost.flops[static_cast<size_t>(FlopFormat::fp4)] = 1;
  EXPECT_THROW(time.seconds(fp8), ConfigError);
}

/// 64 million multiply-adds of a warp's matrix instruction take at least as many of its
/// instructions as its loop has for each.
TEST(OpTime, OurAttentionIsAsFastAsItsInstructions) {
  const Gpu gpu = load_gpu("h100-sxm");
  const double begun = 66.9e12 / 64;  // four a cycle, and 128 multiply-adds
  EXPECT_DOUBLE_EQ(instructions_per_second(gpu), begun);
  const double products = 1e15 / 4096;
  const auto counted = [&](const char* kernel) {
    return instructions_per_product(CudaTarget::sm_90a, kernel, ">");
  };
  const double keys = counted("backward_keys_kernel<Bf16, 128, 128"),
               queries = counted("backward_queries_kernel<Bf16, 128, 128");
  OpEntryRecord op = product(1e15, 1000);
  op.op = "attention_forward", op.kernel = "flash_mma";
  EXPECT_NEAR(OpTime(gpu).seconds(op), products * counted("forward_kernel<Bf16, 128, 128") / begun,
              1e-4);
  op.op = "attention_backward";
  EXPECT_NEAR(OpTime(gpu).seconds(op), products * (4 * keys + 3 * queries) / 7 / begun, 1e-4);
  // Narrow heads have a kernel of their own; cuDNN's and other trainers' are not counted.
  OpTimeSettings narrow, others;
  narrow.head_size = 64;
  EXPECT_GT(OpTime(gpu, narrow).seconds(op), 1.2 * OpTime(gpu).seconds(op));
  others.own_kernels = false;
  const double share = 1e15 / (gpu.measured_flops.at("bf16") * others.attention_share);
  EXPECT_NEAR(OpTime(gpu, others).seconds(op), share, 1e-4);
  EXPECT_LT(share, OpTime(gpu).seconds(op));
  op.kernel = "cudnn";
  EXPECT_LT(OpTime(gpu).seconds(op), share);
}

/// Between products of FP8 the sums go to totals, and the matrix units wait.
TEST(OpTime, OurProductsOfExpertsAreAsFastAsTheirInstructions) {
  const Gpu gpu = load_gpu("h100-sxm");
  OpEntryRecord op{.op = "grouped_gemm", .kernel = "grouped_fp8_blocks_warpgroups"};
  op.cost.flops[static_cast<size_t>(FlopFormat::fp8)] = 1e15;
  OpTimeSettings others;
  others.own_kernels = false;
  const double products = OpTime(gpu, others).seconds(op);
  const double count =
      instructions_per_product(CudaTarget::sm_90a, "grouped_code_warpgroups_kernel<", ", true>");
  const double issued = 1e15 / (2.0 * 64 * 128 * 32 / 4) * count / instructions_per_second(gpu);
  EXPECT_NEAR(OpTime(gpu).seconds(op), products + issued, 1e-4);
  op.kernel = "grouped_fp8_warpgroups";
  EXPECT_LT(OpTime(gpu).seconds(op), products + issued);
  // A warp's products of 16 bits.
  OpEntryRecord tiles = product(1e15, 1000);
  tiles.op = "grouped_gemm", tiles.kernel = "grouped_tiles";
  const double of_tiles =
      instructions_per_product(CudaTarget::sm_90a, "grouped_gemm_kernel<Bf16,", ">");
  EXPECT_NEAR(OpTime(gpu).seconds(tiles), 1e15 / 4096 * of_tiles / instructions_per_second(gpu),
              1e-4);
}

TEST(OpTime, ProductsOfAScoreMatrixAreProducts) {
  const OpTime time(load_gpu("h100-sxm"));
  const OpEntryRecord gemm = product(1e12, 1000000);
  for (const std::string_view name : {"attention_scores", "attention_values", "attention_keys"}) {
    OpEntryRecord op = gemm;
    op.op = name;
    EXPECT_EQ(time.seconds(op), time.seconds(gemm)) << name;
  }
}

TEST(OpTime, WhatMovesManyBytesTakesTheirTime) {
  const Gpu gpu = load_gpu("h100-sxm");
  OpEntryRecord op;
  op.op = "norm_forward";
  op.cost.bytes_read = op.cost.bytes_written = int64_t{4} << 30;
  const double least = static_cast<double>(int64_t{8} << 30) / gpu.memory_bytes_per_second;
  const double passes = OpTimeSettings().extra_passes;
  EXPECT_GT(OpTime(gpu).seconds(op), passes * least);
  EXPECT_LT(OpTime(gpu).seconds(op), 1.2 * passes * least);
}

TEST(OpTime, QuantizationAndMovesAreOnePassOverTheirOperands) {
  const Gpu gpu = load_gpu("h100-sxm");
  OpEntryRecord op;
  op.cost.bytes_read = op.cost.bytes_written = int64_t{4} << 30;
  const double least = static_cast<double>(int64_t{8} << 30) / gpu.memory_bytes_per_second;
  for (const char* name :
       {"convert_operand", "largest_magnitude", "square_codes", "copy", "fill", "embedding_forward",
        "combine_rows", "combine_rows_backward", "row_dots"}) {
    SCOPED_TRACE(name);
    op.op = name;
    EXPECT_GT(OpTime(gpu).seconds(op), least);
    EXPECT_LT(OpTime(gpu).seconds(op), 1.2 * least);
  }
}

/// Its backward keeps a matrix of score gradients, which it writes once and reads once.
TEST(OpTime, AttentionOfALibraryIsOnePassOverItsMatrix) {
  const Gpu gpu = load_gpu("h100-sxm");
  OpEntryRecord op{.op = "attention_backward", .kernel = "cudnn"};
  op.cost.bytes_read = op.cost.bytes_written = int64_t{4} << 30;
  const double least = static_cast<double>(int64_t{8} << 30) / gpu.memory_bytes_per_second;
  EXPECT_GT(OpTime(gpu).seconds(op), least);
  EXPECT_LT(OpTime(gpu).seconds(op), 1.2 * least);
}

TEST(OpTime, AttentionIsSlowerThanAProductOfItsOperations) {
  const OpTime time(load_gpu("a100-80gb-sxm"));
  OpEntryRecord op = product(1e13, 1000);
  const double products = time.seconds(op);
  op.op = "attention_backward";
  const OpTimeSettings settings;
  EXPECT_NEAR(time.seconds(op) / products, settings.product_share / settings.attention_share, 0.01);
}

TEST(OpTime, AttentionOfALibraryHasAShareOfItsOwn) {
  const OpTime time(load_gpu("a100-80gb-sxm"));
  OpEntryRecord op = product(1e13, 1000);
  op.op = "attention_forward";
  const double ours = time.seconds(op);
  op.kernel = "cudnn";
  const OpTimeSettings settings;
  EXPECT_NEAR(ours / time.seconds(op), settings.library_attention_share / settings.attention_share,
              0.01);
}

TEST(OpTime, AttentionOfALibraryHasTheRateThatWasMeasured) {
  const Gpu gpu = load_gpu("b200");
  const double seconds = 1e15 / gpu.library_attention_flops.at("bf16");
  OpEntryRecord op = product(1e15, 1000);
  op.op = "attention_forward";
  OpTimeSettings settings;
  EXPECT_NEAR(OpTime(gpu).seconds(op) * settings.attention_share,
              1e15 / gpu.measured_flops.at("bf16"), 1e-4);
  settings.library_attention = true;
  EXPECT_NEAR(OpTime(gpu, settings).seconds(op), seconds, 1e-4);
  op.kernel = "cudnn";
  EXPECT_NEAR(OpTime(gpu).seconds(op), seconds, 1e-4);
}

TEST(OpTime, AttentionOfALibraryIsSlowerWithNarrowHeads) {
  OpEntryRecord op = product(1e15, 1000);
  op.op = "attention_forward";
  OpTimeSettings settings, narrow;
  narrow.head_size = 64;
  const auto ratio = [&] {
    return OpTime(load_gpu("b200"), settings).seconds(op) /
           OpTime(load_gpu("b200"), narrow).seconds(op);
  };
  EXPECT_EQ(ratio(), 1) << "of our own kernels";
  op.kernel = "cudnn";
  EXPECT_NEAR(ratio(), settings.narrow_heads_share, 1e-4);
}

TEST(OpTime, ProductsThatRunTwice) {
  OpEntryRecord op = product(1e12, 1000);
  OpTimeSettings settings;
  settings.product_repeats = 1.25;
  const Gpu gpu = load_gpu("h100-sxm");
  EXPECT_NEAR(OpTime(gpu, settings).seconds(op), 1.25 * OpTime(gpu).seconds(op), 1e-9);
  op.op = "norm_forward";
  EXPECT_EQ(OpTime(gpu, settings).seconds(op), OpTime(gpu).seconds(op));
}

TEST(OpTime, EachLaunchCosts) {
  const OpTime time(load_gpu("h200"));
  OpEntryRecord op = product(1e9, 1000);
  const double one = time.seconds(op);
  op.launches = 3;
  EXPECT_DOUBLE_EQ(time.seconds(op) - one, 2 * OpTimeSettings().start_seconds);
}

CollectiveRecord collective(Collective operation, const std::vector<int>& members, int64_t bytes,
                            int peer = -1) {
  CollectiveRecord c;
  c.operation = operation;
  c.members = std::make_shared<const RankRule>(RankRule::of(members));
  c.ranks = static_cast<int>(members.size());
  c.bytes = bytes;
  c.peer = peer;
  return c;
}

std::vector<int> strided(int count, int stride) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(i * stride);
  return ranks;
}

constexpr int64_t kBytes = int64_t{1} << 30;

TEST(CollectiveTime, InsideADomainTheFastLinksCarryIt) {
  const Cluster cluster = load_cluster("dgx-h100");
  const CollectiveTime time(cluster);
  const double least =
      2.0 * 7 / 8 * static_cast<double>(kBytes) / cluster.gpu.link_bytes_per_second;
  const double reduce = time.seconds(collective(Collective::all_reduce, strided(8, 1), kBytes));
  EXPECT_GT(reduce, least);
  EXPECT_LT(reduce, 1.4 * least);
  EXPECT_NEAR(time.seconds(collective(Collective::all_gather, strided(8, 1), kBytes)), reduce / 2,
              0.05 * reduce);
}

TEST(CollectiveTime, AcrossDomainsEachMemberHasItsNic) {
  const Cluster cluster = load_cluster("dgx-h100");
  const CollectiveTime time(cluster);
  const double alone = time.seconds(collective(Collective::all_gather, strided(8, 8), kBytes));
  const double least = 7.0 / 8 * static_cast<double>(kBytes) / cluster.nic_bytes_per_second;
  EXPECT_GT(alone, least);
  EXPECT_LT(alone, 1.2 * least);
  // If the group has all eight GPUs of each domain, it uses eight NICs.
  const double whole = time.seconds(collective(Collective::all_gather, strided(64, 1), kBytes));
  EXPECT_LT(whole, alone / 4);
}

TEST(CollectiveTime, MessagesTakeTheLinkBetweenTheirEnds) {
  const CollectiveTime time(load_cluster("dgx-h100"));
  const double near = time.seconds(collective(Collective::send, strided(2, 4), kBytes, 4));
  const double far = time.seconds(collective(Collective::send, strided(2, 8), kBytes, 8));
  EXPECT_GT(far, 6 * near);
}

TEST(CollectiveTime, OversubscribedNetworksAreSlower) {
  Cluster cluster = load_cluster("dgx-h100");
  const auto c = collective(Collective::all_gather, strided(8, 8), kBytes);
  const double full = CollectiveTime(cluster).seconds(c);
  cluster.oversubscription = 4;
  EXPECT_GT(CollectiveTime(cluster).seconds(c), 3.5 * full);
}

TEST(CollectiveTime, AGroupOfOneTakesNoTime) {
  EXPECT_EQ(CollectiveTime(load_cluster("dgx-h100"))
                .seconds(collective(Collective::all_reduce, {3}, kBytes)),
            0);
}

}  // namespace
}  // namespace viaduct
