// How products use a GPU's library: the operands that each generation supports, what is copied into
// the workspace, and the cost.

#include <gmock/gmock.h>

#include "base/error.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/product_layout.h"
#include "ops/quantized_forms.h"

namespace viaduct {
namespace {

using cuda::LibraryScales;
using cuda::product_layout;
using cuda::ProductLayout;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr Quantization kTensor{Scaling::tensor, DType::e4m3, DType::e5m2};
constexpr Quantization kBlocks{Scaling::blocks}, kMx{Scaling::mx};
constexpr Quantization kNvfp4{Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2};
constexpr int64_t kM = 64, kN = 256, kK = 512;

class CudaProducts : public testing::Test {
 protected:
  Tensor sized(DType dtype, const Shape& shape) {
    return device_->allocate(dtype, shape, MemoryTag::other);
  }
  /// The product [m, n, k] of a form with operands of this quantization.
  GemmArgs product(GemmForm form, const Quantization& quantization, int64_t m = kM, int64_t n = kN,
                   int64_t k = kK, DType c = DType::bf16) {
    const GemmForms forms = quantized_forms(form, quantization);
    OpTable table;
    const OpContext context{*device_, table};
    const auto operand = [&](const OperandForm& of, const Shape& shape) {
      return allocate_operand(context, of, DType::bf16, shape, MemoryTag::other);
    };
    const bool forward = form == GemmForm::forward, weight = form == GemmForm::weight_gradient;
    GemmArgs args{form, operand(forms.a, {m, forward ? k : n}),
                  operand(forms.b, weight ? Shape{m, k} : Shape{n, k}),
                  sized(c, weight ? Shape{n, k} : Shape{m, forward ? n : k})};
    args.quantization = quantization;
    return args;
  }
  Choice choose(const GemmArgs& args, CudaTarget target) {
    const OpTable table = cuda_ops(target);
    return table.gemm.choose(args, table.traits);
  }
  std::unique_ptr<Device> device_ = make_sim_device();
};

TEST_F(CudaProducts, EachGenerationHasItsOperands) {
  const auto forms = [](CudaTarget target, const Quantization& quantization) {
    GemmRequest request{GemmForm::forward, DType::bf16};
    request.quantization = quantization;
    return gemm_operand_forms(cuda_ops(target), request);
  };
  for (const CudaTarget target : {CudaTarget::sm_90a, CudaTarget::sm_100a})
    for (const Quantization& both : {kTensor, kBlocks})
      EXPECT_EQ(forms(target, both), quantized_forms(GemmForm::forward, both));
  for (const Quantization& newer : {kMx, kNvfp4})
    EXPECT_EQ(forms(CudaTarget::sm_100a, newer), quantized_forms(GemmForm::forward, newer));
  for (const CudaTarget target : kCudaTargets) EXPECT_EQ(forms(target, {}), GemmForms{});
  EXPECT_THAT([&] { forms(CudaTarget::sm_80, kTensor); },
              ThrowsMessage<DeviceError>(
                  AllOf(HasSubstr("cuda:sm_80"), HasSubstr("sm_90a has them with one scale"))));
  for (const CudaTarget target : {CudaTarget::sm_89, CudaTarget::sm_120}) {
    EXPECT_EQ(forms(target, kTensor), quantized_forms(GemmForm::forward, kTensor));
    EXPECT_THAT([&] { forms(target, kBlocks); },
                ThrowsMessage<DeviceError>(HasSubstr("with one scale for a matrix alone")));
  }
  EXPECT_THAT([&] { forms(CudaTarget::sm_90a, kMx); },
              ThrowsMessage<DeviceError>(
                  AllOf(HasSubstr("cuda:sm_90a has no products of MXFP8"), HasSubstr("sm_100a"))));
  EXPECT_THAT([&] { forms(CudaTarget::sm_90a, kNvfp4); },
              ThrowsMessage<DeviceError>(HasSubstr("NVFP4")));
}

TEST_F(CudaProducts, HopperReadsBothOperandsWithTheContractedDimLast) {
  const auto copied = [&](GemmForm form, CudaTarget target) {
    const ProductLayout layout = product_layout(product(form, kTensor), target);
    EXPECT_EQ(layout.a.scales, LibraryScales::matrix);
    return std::pair{layout.a.copied, layout.b.copied};
  };
  EXPECT_EQ(copied(GemmForm::forward, CudaTarget::sm_90a), std::pair(false, false));
  EXPECT_EQ(copied(GemmForm::data_gradient, CudaTarget::sm_90a), std::pair(false, true));
  EXPECT_EQ(copied(GemmForm::weight_gradient, CudaTarget::sm_90a), std::pair(true, true));
  for (const GemmForm form :
       {GemmForm::forward, GemmForm::data_gradient, GemmForm::weight_gradient})
    EXPECT_EQ(copied(form, CudaTarget::sm_100a), std::pair(false, false));

  const GemmArgs gradient = product(GemmForm::weight_gradient, kTensor);
  const Choice hopper = choose(gradient, CudaTarget::sm_90a);
  const Choice blackwell = choose(gradient, CudaTarget::sm_100a);
  EXPECT_EQ(blackwell.kernel, "cublaslt_fp8");
  EXPECT_EQ(blackwell.launches, 1);
  EXPECT_EQ(blackwell.workspace_bytes, cuda::kProductWorkspace);
  EXPECT_EQ(hopper.launches, 3);
  const int64_t copies = kM * kN + kM * kK;
  EXPECT_EQ(hopper.workspace_bytes, cuda::kProductWorkspace + copies);
  EXPECT_EQ(hopper.cost.bytes_read, blackwell.cost.bytes_read + copies);
  EXPECT_EQ(hopper.cost.bytes_written, blackwell.cost.bytes_written + copies);
  const double operations = 2.0 * kM * kN * kK;
  EXPECT_EQ(hopper.cost.flops[static_cast<size_t>(FlopFormat::fp8)], operations);
  EXPECT_EQ(hopper.cost.total_flops(), operations);
  const Choice fp4 = choose(product(GemmForm::forward, kNvfp4), CudaTarget::sm_100a);
  EXPECT_EQ(fp4.cost.flops[static_cast<size_t>(FlopFormat::fp4)], operations);
}

TEST_F(CudaProducts, ScalesOfGroupsAreOrderedForTheLibrary) {
  const GemmArgs forward = product(GemmForm::forward, kBlocks);
  const ProductLayout hopper = product_layout(forward, CudaTarget::sm_90a);
  EXPECT_EQ(hopper.a.scales, LibraryScales::lines_128);
  EXPECT_EQ(hopper.a.scales_bytes, kM * (kK / 128) * 4);
  EXPECT_EQ(hopper.b.scales, LibraryScales::squares_128);
  EXPECT_EQ(hopper.b.scales_bytes, (kN / 128) * 4 * 4);
  EXPECT_EQ(hopper.launches, 3);
  // The same scales as powers of two, one for 32 elements, in tiles of 128 × 4.
  const ProductLayout blackwell = product_layout(forward, CudaTarget::sm_100a);
  EXPECT_EQ(blackwell.a.scales, LibraryScales::lines_32);
  EXPECT_EQ(blackwell.a.scales_bytes, 128 * (kK / 32));
  EXPECT_EQ(blackwell.b.scales_bytes, kN * (kK / 32));
  const ProductLayout mx = product_layout(product(GemmForm::forward, kMx), CudaTarget::sm_100a);
  EXPECT_EQ(mx.a.scales_bytes, blackwell.a.scales_bytes);
  const ProductLayout fp4 =
      product_layout(product(GemmForm::data_gradient, kNvfp4), CudaTarget::sm_100a);
  EXPECT_EQ(fp4.b.scales, LibraryScales::lines_16);
  EXPECT_TRUE(fp4.b.copied) << "the contracted dim last";
  EXPECT_EQ(fp4.b.values_bytes, kN * kK / 2);
  EXPECT_TRUE(fp4.device_factor);
}

TEST_F(CudaProducts, WhatTheLibraryDoesNotReadIsPadded) {
  // 70 tokens are contracted.
  const ProductLayout gradient =
      product_layout(product(GemmForm::weight_gradient, kTensor, 70), CudaTarget::sm_90a);
  EXPECT_EQ(gradient.contracted, 80);
  EXPECT_EQ(gradient.a.values_bytes, kN * 80);
  EXPECT_FALSE(gradient.own_place);
  // Products in blocks have a multiple of four rows; padding rows are written elsewhere.
  const ProductLayout forward =
      product_layout(product(GemmForm::forward, kBlocks, 70), CudaTarget::sm_90a);
  EXPECT_EQ(forward.a.kept, 72);
  EXPECT_TRUE(forward.a.copied && forward.own_place);
  EXPECT_EQ(forward.place, DType::f32);
  EXPECT_FALSE(
      product_layout(product(GemmForm::forward, kBlocks, 70), CudaTarget::sm_100a).own_place);
  // A row of c begins at a multiple of 16 bytes.
  EXPECT_THAT([&] { choose(product(GemmForm::forward, kTensor, kM, 200), CudaTarget::sm_90a); },
              ThrowsMessage<DeviceError>(AllOf(HasSubstr("a multiple of 16 columns, got 200"))));
}

TEST_F(CudaProducts, ABiasInFp32IsAddedToFp32Sums) {
  GemmArgs args = product(GemmForm::forward, {});
  args.bias = sized(DType::f32, {kN});
  const Choice wide = choose(args, CudaTarget::sm_90a);
  EXPECT_EQ(wide.workspace_bytes, cuda::kProductWorkspace + kM * kN * 4);
  EXPECT_EQ(wide.launches, 2);
  args.c = sized(DType::f32, {kM, kN});
  const Choice own = choose(args, CudaTarget::sm_90a);
  EXPECT_EQ(own.workspace_bytes, cuda::kProductWorkspace);
  EXPECT_EQ(own.launches, 1) << "the library adds it";
  args.bias = sized(DType::bf16, {kN});
  EXPECT_EQ(choose(args, CudaTarget::sm_90a).launches, 2);
}

}  // namespace
}  // namespace viaduct
