#include "nn/weight_gradient.h"

#include "ops/checks.h"
#include "ops/elementwise.h"

namespace viaduct {

void make_weight_gradient(RankContext& context, const Operand& dy, const Operand& x,
                          const GradientAccess::Destination& destination,
                          const Quantization& quantization, const ProductAmax& amax,
                          int spare_multiprocessors) {
  GemmArgs args;
  args.form = GemmForm::weight_gradient;  // c [N, K] (= or +=) dyᵀ · x
  args.a = dy;
  args.b = x;
  args.quantization = quantization;
  args.spare_multiprocessors = spare_multiprocessors;
  if (context.settings.fusions.gradient_accumulation) {
    args.c = destination.tensor;
    args.mode = destination.mode;
    return run_product(context.ops, args, amax);
  }
  // temporary [N, K] = dyᵀ · x, then destination (= or +=) temporary
  args.c = context.ops.allocate(accumulator_dtype(destination.tensor.dtype()),
                                destination.tensor.shape(), MemoryTag::workspace);
  run_product(context.ops, args, amax);
  copy(context.ops, {args.c, destination.tensor, destination.mode});
}

void make_grouped_gradient(RankContext& context, GroupedGemmArgs args,
                           const GradientAccess::Destination& destination) {
  if (context.settings.fusions.gradient_accumulation) {
    args.c = destination.tensor, args.mode = destination.mode;
    return grouped_gemm(context.ops, args);
  }
  // temporary [E · N, K], then destination (= or +=) temporary
  args.c = context.ops.allocate(accumulator_dtype(destination.tensor.dtype()),
                                destination.tensor.shape(), MemoryTag::workspace);
  args.mode = WriteMode::assign;
  grouped_gemm(context.ops, args);
  copy(context.ops, {args.c, destination.tensor, destination.mode});
}

}  // namespace viaduct
