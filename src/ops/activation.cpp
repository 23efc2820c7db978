#include "ops/activation.h"

#include "ops/checks.h"
#include "ops/table.h"

namespace viaduct {
namespace {

/// `in` is [T, F] or [T, 2F], `out` is [T, F].
void check(std::string_view op, bool gated, const GateShape& shape, const Tensor& in,
           std::string_view out_name, const Tensor& out) {
  VIADUCT_CHECK(ShapeError, gated || !shape.any(),
                "{}: clamp {}, offset {}: expected none without a gate", op, shape.clamp,
                shape.offset);
  VIADUCT_CHECK(ShapeError, shape.clamp >= 0, "{}: clamp: expected at least 0, found {}", op,
                shape.clamp);
  check_rank(op, "in", in, 2);
  check_floating(op, "in", in);
  check_dense_rows(op, "in", in);
  VIADUCT_CHECK(ShapeError, !gated || in.dim(1) % 2 == 0,
                "{}: in: expected gate | up of equal width, found {}", op, describe(in));
  check_shape(op, out_name, out, {in.dim(0), gated ? in.dim(1) / 2 : in.dim(1)});
  check_dtype(op, out_name, out, {in.dtype()});
  check_dense_rows(op, out_name, out);
}

}  // namespace

void activation_forward(OpContext& context, const ActivationForwardArgs& args) {
  constexpr std::string_view op = "activation_forward";
  check(op, args.gated, args.shape, args.in, "out", args.out);
  check_produced_forms(op, context.ops, args.forms, args.out);
  dispatch(context, op, context.ops.activation_forward, args);
}

void activation_backward(OpContext& context, const ActivationBackwardArgs& args) {
  constexpr std::string_view op = "activation_backward";
  check(op, args.gated, args.shape, args.in, "d_out", args.d_out);
  check_shape(op, "d_in", args.d_in, args.in.shape());
  check_dtype(op, "d_in", args.d_in, {args.in.dtype()});
  check_dense_rows(op, "d_in", args.d_in);
  dispatch(context, op, context.ops.activation_backward, args);
}

}  // namespace viaduct
