// Choices for the products of all experts of a rank: one launch, whose tiles find their expert by
// the offsets, and before it one for each quantized operand that is made of a tensor.

#include "ops/cuda/cuda_entry.h"
#include "ops/cuda/grouped_operands.h"
#include "ops/cuda/kernels/nvfp4.h"
#include "ops/cuda/product_layout.h"
#include "ops/cuda/warpgroup_products.h"

namespace viaduct::cuda {
namespace {

std::string_view product_kernel(Scaling scaling, bool warpgroups) {
  switch (scaling) {
    case Scaling::none:
      break;
    case Scaling::tensor:
      return warpgroups ? "grouped_fp8_warpgroups" : "grouped_fp8";
    case Scaling::blocks:
      return warpgroups ? "grouped_fp8_blocks_warpgroups" : "grouped_fp8_blocks";
    case Scaling::mx:
      return "grouped_mxfp8";
    case Scaling::nvfp4:
      return "grouped_nvfp4";
  }
  return warpgroups ? kGroupedWarpgroups : "grouped_tiles";
}

/// Operands that are made in the workspace: each is written, and read by the product.
void add_made(Choice& choice, const GroupedOperand& operand) {
  if (!operand.made) return;
  ++choice.launches;
  choice.cost.bytes_read += operand.bytes();
  choice.cost.bytes_written += operand.bytes();
}

void choose_quantized(Choice& choice, const GroupedGemmArgs& args, const Traits& traits,
                      CudaTarget target) {
  const std::string missing = missing_products(args.quantization, target);
  VIADUCT_CHECK(DeviceError, missing.empty(), "grouped_gemm: {}", missing);
  VIADUCT_CHECK(DeviceError, args.rounding.features.size() <= RandomBits::kMostRuns,
                "grouped_gemm: {} rounds columns of up to {} runs of features, found {}",
                traits.name, RandomBits::kMostRuns, args.rounding.features.size());
  const auto operands = std::make_shared<GroupedOperands>(grouped_operands(args));
  operands->warpgroups = uses_warpgroups(args, *operands, target);
  choice.kernel = product_kernel(args.quantization.scaling, operands->warpgroups);
  // Other matrix units multiply what codes represent as FP16 (kernels/grouped_codes.cu).
  move_flops(choice.cost, operands->warpgroups ? FlopFormat::fp8 : FlopFormat::f16);
  add_made(choice, operands->a);
  add_made(choice, operands->b);
  choice.workspace_bytes = operands->workspace_bytes;
  choice.plan = operands;
}

template <CudaTarget kTarget>
Choice choose_grouped(const GroupedGemmArgs& args, const Traits& traits) {
  const DType dtype = args.a.dtype();
  VIADUCT_CHECK(DeviceError, dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16,
                "grouped_gemm: {} has no kernel for {}; it has f32, bf16 and f16", traits.name,
                dtype_name(dtype));
  const Shape& weights = shape_of_weights(args);
  const int64_t rows = args.a.dim(0), experts = args.offsets.dim(0) - 1;
  Choice choice;
  choice.cost.bytes_read = args.a.bytes() + args.b.bytes() + args.offsets.bytes() +
                           (args.mode == WriteMode::accumulate ? args.c.bytes() : 0);
  choice.cost.bytes_written = args.c.bytes();
  const double products =
      static_cast<double>(rows) * static_cast<double>(weights[0] / experts * weights[1]);
  add_vector_flops(choice.cost, dtype, 2.0 * products);
  if (expert_forms(args).a.plain()) {
    choice.kernel = product_kernel(Scaling::none, uses_warpgroups(args, kTarget));
    use_matrix_units(choice.cost, dtype);
  } else {
    choose_quantized(choice, args, traits, kTarget);
  }
  return choice;
}

}  // namespace

void add_grouped_gemm(OpTable& table, CudaTarget target) {
  switch (target) {
    case CudaTarget::sm_80:
      return add_entry(table.grouped_gemm, choose_grouped<CudaTarget::sm_80>);
    case CudaTarget::sm_89:
      return add_entry(table.grouped_gemm, choose_grouped<CudaTarget::sm_89>);
    case CudaTarget::sm_90a:
      return add_entry(table.grouped_gemm, choose_grouped<CudaTarget::sm_90a>);
    case CudaTarget::sm_100a:
      return add_entry(table.grouped_gemm, choose_grouped<CudaTarget::sm_100a>);
    case CudaTarget::sm_120:
      return add_entry(table.grouped_gemm, choose_grouped<CudaTarget::sm_120>);
  }
}

}  // namespace viaduct::cuda
