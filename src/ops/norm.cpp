#include "ops/norm.h"

#include "ops/checks.h"
#include "ops/make_cost.h"
#include "ops/table.h"

namespace viaduct {
namespace {

/// Checks x, and tensors with its shape and dtype.
void check_rows(std::string_view op, std::string_view argument, const Tensor& tensor,
                const Tensor& x) {
  check_shape(op, argument, tensor, x.shape());
  check_dtype(op, argument, tensor, {x.dtype()});
  check_dense_rows(op, argument, tensor);
}

/// Checks y or dy: x's dtype, or a narrower one if that is f32.
void check_activation_rows(std::string_view op, std::string_view argument, const Tensor& tensor,
                           const Tensor& x) {
  check_shape(op, argument, tensor, x.shape());
  if (x.dtype() == DType::f32) {
    check_dtype(op, argument, tensor, {DType::f32, DType::bf16, DType::f16});
  } else {
    check_dtype(op, argument, tensor, {x.dtype()});
  }
  check_dense_rows(op, argument, tensor);
}

void check_input(std::string_view op, const Tensor& x) {
  check_floating(op, "x", x);
  VIADUCT_CHECK(ShapeError, x.rank() == 2 || x.rank() == 3,
                "{}: x: expected [R, H] or [T, N, H], found {}", op, describe(x));
  VIADUCT_CHECK(ShapeError, x.dim(-1) > 0, "{}: x: expected rows with elements, found {}", op,
                describe(x));
  check_dense_rows(op, "x", x);
}

void check_scale(std::string_view op, std::string_view argument, const Tensor& tensor,
                 const Tensor& y) {
  check_shape(op, argument, tensor, {y.dim(-1)});
  check_dtype(op, argument, tensor, {y.dtype(), accumulator_dtype(y.dtype())});
  check_contiguous(op, argument, tensor);
}

void check_statistic(std::string_view op, std::string_view argument, const Tensor& tensor,
                     const Tensor& x) {
  check_shape(op, argument, tensor, {x.elements() / x.dim(-1)});
  check_dtype(op, argument, tensor, {accumulator_dtype(x.dtype())});
  check_contiguous(op, argument, tensor);
}

}  // namespace

void norm_forward(OpContext& context, const NormForwardArgs& args) {
  constexpr std::string_view op = "norm_forward";
  check_input(op, args.x);
  check_activation_rows(op, "y", args.y, args.x);
  check_scale(op, "weight", args.weight, args.y);
  const bool layer = args.kind == NormKind::layer_norm;
  VIADUCT_CHECK(ShapeError, layer || !args.bias, "{}: bias: RMS norm has none, found {}", op,
                describe(args.bias));
  VIADUCT_CHECK(ShapeError, layer || !args.mean, "{}: mean: RMS norm has none, found {}", op,
                describe(args.mean));
  if (args.bias) check_scale(op, "bias", args.bias, args.y);
  if (args.mean) check_statistic(op, "mean", args.mean, args.x);
  if (args.rstd) check_statistic(op, "rstd", args.rstd, args.x);
  check_produced_forms(op, context.ops, args.forms, args.y);
  dispatch(context, op, context.ops.norm_forward, args);
}

void norm_backward(OpContext& context, const NormBackwardArgs& args) {
  constexpr std::string_view op = "norm_backward";
  check_input(op, args.x);
  check_activation_rows(op, "dy", args.dy, args.x);
  check_rows(op, "dx", args.dx, args.x);
  if (args.dx_add) check_rows(op, "dx_add", args.dx_add, args.x);
  check_scale(op, "weight", args.weight, args.dy);
  check_statistic(op, "rstd", args.rstd, args.x);
  const bool layer = args.kind == NormKind::layer_norm;
  if (layer) {
    check_statistic(op, "mean", args.mean, args.x);
  } else {
    VIADUCT_CHECK(ShapeError, !args.d_bias, "{}: d_bias: RMS norm has no bias, found {}", op,
                  describe(args.d_bias));
  }
  const auto check_gradient = [&](std::string_view argument, const Tensor& tensor) {
    check_shape(op, argument, tensor, {args.x.dim(-1)});
    check_dtype(op, argument, tensor, {accumulator_dtype(args.x.dtype())});
    check_contiguous(op, argument, tensor);
  };
  check_gradient("d_weight", args.d_weight);
  if (args.d_bias) check_gradient("d_bias", args.d_bias);
  dispatch(context, op, context.ops.norm_backward, args);
}

Cost cost_of(const NormForwardArgs& args) {
  Cost cost = make_cost(args.x.dtype(), count(args.x) * (args.kind == NormKind::layer_norm ? 7 : 4),
                        {&args.x, &args.weight, &args.bias}, {&args.y, &args.mean, &args.rstd});
  cost += cost_of(args.forms, args.y);
  return cost;
}

Cost cost_of(const NormBackwardArgs& args) {
  return make_cost(args.x.dtype(), count(args.x) * (args.kind == NormKind::layer_norm ? 14 : 12),
                   {&args.dy, &args.x, &args.weight, &args.mean, &args.rstd, &args.dx_add,
                    &args.d_weight, &args.d_bias},
                   {&args.dx, &args.d_weight, &args.d_bias});
}

}  // namespace viaduct
