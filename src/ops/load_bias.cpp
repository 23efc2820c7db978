#include "ops/load_bias.h"

#include "ops/checks.h"
#include "ops/step_scalars.h"
#include "ops/table.h"

namespace viaduct {
namespace {

void check_values(std::string_view op, std::string_view argument, const Tensor& tensor,
                  const Shape& shape) {
  check_shape(op, argument, tensor, shape);
  check_dtype(op, argument, tensor, {DType::f32, DType::f64});
  check_contiguous(op, argument, tensor);
}

}  // namespace

void load_error(OpContext& context, const LoadErrorArgs& args) {
  constexpr std::string_view kOp = "load_error";
  check_rank(kOp, "counts", args.counts, 1);
  check_dtype(kOp, "counts", args.counts, {DType::i64});
  check_contiguous(kOp, "counts", args.counts);
  check_values(kOp, "out", args.out, args.counts.shape());
  dispatch(context, kOp, context.ops.load_error, args);
}

void move_load_bias(OpContext& context, const MoveLoadBiasArgs& args) {
  constexpr std::string_view kOp = "move_load_bias";
  check_rank(kOp, "bias", args.bias, 1);
  check_values(kOp, "bias", args.bias, args.bias.shape());
  check_values(kOp, "error", args.error, args.bias.shape());
  if (args.weight) {
    check_shape(kOp, "weight", args.weight, args.bias.shape());
    check_floating(kOp, "weight", args.weight);
    check_contiguous(kOp, "weight", args.weight);
  }
  check_values(kOp, "scalars", args.scalars, {kStepScalars});
  dispatch(context, kOp, context.ops.move_load_bias, args);
}

}  // namespace viaduct
