// Launches of the measurements of quantized operands.

#include "ops/cuda/kernels/quantization_error.h"
#include "ops/cuda/launch/placed_operand.h"
#include "tensor/operand_scale.h"

namespace viaduct::cuda {
namespace {

void launch_error(OpContext& context, const Choice& choice, const QuantizationErrorArgs& args,
                  void* workspace) {
  constexpr std::string_view kOp = "quantization_error";
  const int64_t matrices = args.sums.dim(0);
  if (matrices == 0) return;
  const auto& plan = *static_cast<const MeasuredPlan*>(choice.plan.get());
  const Operand from = args.operand ? args.operand : Operand(args.matrix);
  const Stream stream = stream_of(context);
  const PlacedOperand operand(plan.operand, from, args.offsets, matrices, workspace);
  operand.make(kOp, from, args.amax, args.rounding, stream);
  const DType element = *measured_form(args).element;
  quantization_error(
      {.matrix = rows_of(kOp, args.matrix),
       .columns = args.matrix.dim(1),
       .operand = operand.coded(),
       .halves = element == DType::e2m1x2,
       .largest = largest_element(element),
       .workspace = reinterpret_cast<double*>(static_cast<char*>(workspace) + plan.parts_at),
       .sums = args.sums.data<double>()},
      stream);
}

}  // namespace

void add_quantization_error_launches(OpTable& table) {
  table.quantization_error.launch = launch_error;
}

}  // namespace viaduct::cuda
