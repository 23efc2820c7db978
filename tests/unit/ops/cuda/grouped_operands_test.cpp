// Quantized products of experts on a GPU: which generation has them, the operands in the workspace,
// launches and cost.

#include <gmock/gmock.h>

#include "base/error.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/grouped_operands.h"

namespace viaduct {
namespace {

using cuda::grouped_operands;
using cuda::GroupedOperands;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr Quantization kTensor{Scaling::tensor, DType::e4m3, DType::e5m2};
constexpr Quantization kBlocks{Scaling::blocks}, kMx{Scaling::mx};
constexpr Quantization kNvfp4{Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2};
constexpr int64_t kExperts = 8, kRows = 1000, kN = 256, kK = 520;

class CudaGroupedOperands : public testing::Test {
 protected:
  GroupedGemmArgs product(GemmForm form, const Quantization& quantization, int64_t k = kK) {
    const auto sized = [&](DType dtype, const Shape& shape) {
      return device_->allocate(dtype, shape, MemoryTag::other);
    };
    const bool forward = form == GemmForm::forward, weight = form == GemmForm::weight_gradient;
    GroupedGemmArgs args{form, sized(DType::bf16, {kRows, forward ? k : kN}),
                         sized(DType::bf16, {weight ? kRows : kExperts * kN, k}),
                         weight ? sized(DType::f32, {kExperts * kN, k})
                                : sized(DType::bf16, {kRows, forward ? kN : k}),
                         sized(DType::i32, {kExperts + 1})};
    args.quantization = quantization;
    return args;
  }
  /// With weights that were made before.
  GroupedGemmArgs with_stack(GemmForm form, const Quantization& quantization) {
    GroupedGemmArgs args = product(form, quantization);
    OpTable table;
    const OpContext context{*device_, table};
    args.b = allocate_stack(context, kExperts, expert_forms(args).b, DType::bf16, {kN, kK},
                            MemoryTag::weights);
    return args;
  }
  Choice choose(const GroupedGemmArgs& args, CudaTarget target) {
    const OpTable table = cuda_ops(target);
    return table.grouped_gemm.choose(args, table.traits);
  }
  std::unique_ptr<Device> device_ = make_sim_device();
};

TEST_F(CudaGroupedOperands, GenerationsHaveTheProductsOfTheirLinearLayers) {
  const auto refusal = [&](CudaTarget target, const Quantization& quantization) -> std::string {
    try {
      choose(product(GemmForm::forward, quantization), target);
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "";
  };
  for (const Quantization& each : {kTensor, kBlocks}) {
    EXPECT_THAT(refusal(CudaTarget::sm_80, each), HasSubstr("no products of quantized operands"));
    EXPECT_EQ(refusal(CudaTarget::sm_90a, each), "");
  }
  EXPECT_THAT(refusal(CudaTarget::sm_90a, kMx), HasSubstr("no products of MXFP8 operands"));
  EXPECT_THAT(refusal(CudaTarget::sm_90a, kNvfp4), HasSubstr("no products of NVFP4 operands"));
  for (const Quantization& each : {kTensor, kBlocks, kMx, kNvfp4})
    EXPECT_EQ(refusal(CudaTarget::sm_100a, each), "");
}

TEST_F(CudaGroupedOperands, RowsAreMadeAndWeightsReadWhereTheyAre) {
  const GroupedOperands tensor = grouped_operands(with_stack(GemmForm::forward, kTensor));
  EXPECT_FALSE(tensor.b.made);
  EXPECT_EQ(tensor.a.stride, 528) << "reads of 16 codes";
  EXPECT_EQ(tensor.a.values_bytes, kRows * 528);
  EXPECT_EQ(tensor.a.matrix_scales_bytes, kExperts * 4);
  EXPECT_EQ(tensor.a.scales_bytes, 0);
  // Each expert has groups of its own, the last of which may not be full.
  const GroupedOperands blocks = grouped_operands(product(GemmForm::weight_gradient, kBlocks));
  EXPECT_TRUE(blocks.a.made && blocks.b.made);
  EXPECT_EQ(blocks.b.scales_bytes, (kRows / 128 + kExperts) * kK * 4);
  const GroupedOperands mx = grouped_operands(product(GemmForm::weight_gradient, kMx));
  EXPECT_EQ(mx.b.scales_bytes, (kRows / 32 + kExperts) * kK);
  // Rows that are rotated together are complete.
  const GroupedOperands fp4 = grouped_operands(product(GemmForm::weight_gradient, kNvfp4));
  EXPECT_EQ(fp4.b.values_bytes, 16 * (kRows / 16 + kExperts) * 528 / 2);
  EXPECT_EQ(fp4.b.scales_bytes, (kRows / 16 + kExperts) * kK);
}

TEST_F(CudaGroupedOperands, EachIsALaunchAndIsWrittenAndReadOnce) {
  const double flops = 2.0 * kRows * kN * kK;
  for (const Quantization& each : {kTensor, kBlocks, kMx, kNvfp4}) {
    const GroupedGemmArgs args = with_stack(GemmForm::data_gradient, each);
    const Choice choice = choose(args, CudaTarget::sm_100a);
    const int64_t made = grouped_operands(args).a.bytes();
    EXPECT_EQ(choice.launches, 2);
    EXPECT_EQ(choice.cost.bytes_written, args.c.bytes() + made);
    EXPECT_EQ(choice.cost.bytes_read,
              args.a.bytes() + args.b.bytes() + args.offsets.bytes() + made);
    EXPECT_EQ(choice.cost.flops[static_cast<size_t>(FlopFormat::f16)], flops);
    EXPECT_EQ(choice.cost.total_flops(), flops);
    EXPECT_EQ(choose(product(GemmForm::weight_gradient, each), CudaTarget::sm_100a).launches, 3);
  }
}

/// At the rate of FP8, where rows of codes are whole runs of 16 bytes.
TEST_F(CudaGroupedOperands, WarpgroupsMultiplyWhatTheyCanRead) {
  const auto at = [](FlopFormat format) { return static_cast<size_t>(format); };
  for (const GemmForm form :
       {GemmForm::forward, GemmForm::data_gradient, GemmForm::weight_gradient}) {
    for (const Quantization& each : {kTensor, kBlocks}) {
      const Choice whole = choose(product(form, each, 512), CudaTarget::sm_90a);
      EXPECT_THAT(whole.kernel, testing::EndsWith("_warpgroups"));
      EXPECT_EQ(whole.cost.flops[at(FlopFormat::fp8)], whole.cost.total_flops());
      const Choice other = choose(product(form, each, 512), CudaTarget::sm_100a);
      EXPECT_EQ(other.cost.flops[at(FlopFormat::f16)], whole.cost.total_flops());
      EXPECT_EQ(other.workspace_bytes, whole.workspace_bytes);
      const Choice broken = choose(product(form, each), CudaTarget::sm_90a);
      EXPECT_EQ(broken.kernel, choose(product(form, each), CudaTarget::sm_100a).kernel);
      EXPECT_EQ(broken.cost.flops[at(FlopFormat::f16)], broken.cost.total_flops());
    }
    EXPECT_EQ(choose(product(form, {}), CudaTarget::sm_90a).kernel, "grouped_warpgroups");
    EXPECT_EQ(choose(product(form, {}), CudaTarget::sm_80).kernel, "grouped_tiles");
    EXPECT_EQ(choose(product(form, {}), CudaTarget::sm_100a).kernel, "grouped_tiles");
    EXPECT_EQ(choose(product(form, {}, 516), CudaTarget::sm_90a).kernel, "grouped_tiles");
  }
  // The second operand is in E4M3.
  constexpr Quantization kWide{Scaling::tensor, DType::e5m2, DType::e5m2};
  EXPECT_EQ(choose(product(GemmForm::forward, kWide, 512), CudaTarget::sm_90a).kernel,
            "grouped_fp8");
}

TEST_F(CudaGroupedOperands, MoreRunsOfFeaturesThanAKernelTakesAreRefused) {
  GroupedGemmArgs args = product(GemmForm::data_gradient, kNvfp4);
  for (int64_t run = 0; run < 193; ++run)
    args.rounding.features.push_back({run, static_cast<uint64_t>(run)});
  EXPECT_THAT([&] { choose(args, CudaTarget::sm_100a); },
              ThrowsMessage<DeviceError>(HasSubstr("up to 192 runs of features, found 193")));
}

}  // namespace
}  // namespace viaduct
