// Launches of quantized products of experts: the operands that are made here, and the product.

#include "ops/cuda/kernels/grouped_warpgroups.h"
#include "ops/cuda/launch/grouped_codes.h"
#include "ops/cuda/launch/placed_operand.h"

namespace viaduct::cuda {

void launch_grouped_codes(OpContext& context, const Choice& choice, const GroupedGemmArgs& args,
                          const GroupedShape& shape, void* workspace) {
  constexpr std::string_view kOp = "grouped_gemm";
  const auto& operands = *static_cast<const GroupedOperands*>(choice.plan.get());
  const Stream stream = stream_of(context);
  const PlacedOperand a(operands.a, args.a, args.offsets, shape.experts, workspace);
  const PlacedOperand b(operands.b, args.b, args.offsets, shape.experts, workspace);
  a.make(kOp, args.a, args.a_amax, args.rounding, stream);
  b.make(kOp, args.b, args.b_amax, {}, stream);
  CodedProduct product{shape, a.coded(), b.coded()};
  product.halves = operands.a.form.element == DType::e2m1x2;
  product.complete = operands.a.form.rotated;
  if (!product.halves && !has_one_scale(operands.a.form))
    product.group = operands.a.form.scales->group.contracted;
  operands.warpgroups ? grouped_code_warpgroups(product, stream) : grouped_codes(product, stream);
}

}  // namespace viaduct::cuda
