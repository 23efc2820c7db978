#include "ops/cpu/gemm/gemm_quantized.h"

#include <memory>

#include "ops/cpu/gemm/nvfp4.h"
#include "ops/cpu/gemm/quantize.h"

namespace viaduct::cpu {
namespace {

/// Of a choice, for its launch: offsets in the workspace, whose start is a.
struct Plan {
  Choice matrices;
  int64_t b = 0, matrices_workspace = 0;
};

int64_t widened_bytes(const Operand& operand) {
  return (operand.shape().elements() * dtype_bytes(DType::bf16) + 63) / 64 * 64;
}

Tensor matrix_at(void* memory, const Operand& operand) {
  return {std::make_shared<Storage>(memory, widened_bytes(operand), nullptr), DType::bf16,
          operand.shape()};
}

/// The product of matrices at these addresses (null: only sizes).
GemmArgs matrices_at(const GemmArgs& args, void* a, void* b) {
  GemmArgs matrices = args;
  matrices.a = matrix_at(a, args.a);
  matrices.b = matrix_at(b, args.b);
  matrices.quantization = {};
  return matrices;
}

void widen_operand(ThreadPool& pool, const Operand& operand, const Tensor& to, CpuIsa isa) {
  if (is_nvfp4(operand.form())) return widen_nvfp4(pool, operand, to, nvfp4_kernels(isa));
  widen(pool, operand, to, quantize_kernels(isa));
}

}  // namespace

bool is_quantized_product(const GemmArgs& args) {
  return args.a.form().element.has_value();
}

Choice choose_widened(const GemmArgs& args, const Traits& traits,
                      Choice (*choose_matrices)(const GemmArgs&, const Traits&)) {
  auto plan = std::make_shared<Plan>();
  plan->matrices = choose_matrices(matrices_at(args, nullptr, nullptr), traits);
  plan->b = widened_bytes(args.a);
  plan->matrices_workspace = plan->b + widened_bytes(args.b);
  Choice choice = plan->matrices;
  choice.kernel = "widened";
  const int64_t widened =
      (args.a.shape().elements() + args.b.shape().elements()) * dtype_bytes(DType::bf16);
  choice.cost.bytes_read += args.a.bytes() + args.b.bytes();  // widened, then read again
  choice.cost.bytes_written += widened;
  choice.workspace_bytes += plan->matrices_workspace;
  choice.plan = std::move(plan);
  return choice;
}

WidenedProduct widen_operands(OpContext& context, const Choice& choice, const GemmArgs& args,
                              void* workspace, CpuIsa isa) {
  const Plan& plan = *static_cast<const Plan*>(choice.plan.get());
  auto* const memory = static_cast<std::byte*>(workspace);
  WidenedProduct product{matrices_at(args, memory, memory + plan.b), plan.matrices,
                         memory + plan.matrices_workspace,
                         whole_scale(args.a) * whole_scale(args.b)};
  widen_operand(context.device.pool(), args.a, product.args.a.tensor(), isa);
  widen_operand(context.device.pool(), args.b, product.args.b.tensor(), isa);
  return product;
}

}  // namespace viaduct::cpu
