#include "ops/cuda/warpgroup_products.h"

namespace viaduct::cuda {
namespace {

constexpr int64_t kRunBytes = 16;

/// Blocks of tensors are aligned on every device.
bool has_whole_runs(const Tensor& tensor) {
  const int64_t bytes = dtype_bytes(tensor.dtype());
  return tensor.offset_bytes() % kRunBytes == 0 && tensor.dim(1) * bytes % kRunBytes == 0 &&
         tensor.stride(0) * bytes % kRunBytes == 0;
}

bool has_codes_for_warpgroups(const GroupedOperand& operand) {
  constexpr int64_t kStepDepth = 128;  // of the kernel: scales change between steps
  return operand.form.element != DType::e2m1x2 && operand.columns % kRunBytes == 0 &&
         (has_one_scale(operand.form) || operand.form.scales->group.contracted == kStepDepth);
}

}  // namespace

bool uses_warpgroups(const GroupedGemmArgs& args, CudaTarget target) {
  const DType dtype = args.a.dtype();
  return target == CudaTarget::sm_90a && (dtype == DType::bf16 || dtype == DType::f16) &&
         has_whole_runs(args.a) && has_whole_runs(args.b.tensor()) && has_whole_runs(args.c);
}

bool uses_warpgroups(const GroupedGemmArgs& args, const GroupedOperands& operands,
                     CudaTarget target) {
  const bool aligned_stack = operands.b.made || args.b.values().offset_bytes() % kRunBytes == 0;
  return target == CudaTarget::sm_90a && operands.b.form.element == DType::e4m3 && aligned_stack &&
         has_codes_for_warpgroups(operands.a) && has_codes_for_warpgroups(operands.b) &&
         has_whole_runs(args.c);
}

}  // namespace viaduct::cuda
