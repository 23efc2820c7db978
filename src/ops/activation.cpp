#include "ops/activation.h"

#include "ops/checks.h"
#include "ops/make_cost.h"
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

/// Operations per element; an exponential counts as 12.
double activation_flops(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::gelu:
      return 36;
    case ActivationKind::gelu_tanh:
      return 22;
    case ActivationKind::quick_gelu:
    case ActivationKind::silu:
      return 16;
    case ActivationKind::relu:
      return 1;
    case ActivationKind::squared_relu:
      return 2;
  }
  return 0;
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

double activation_forward_flops(ActivationKind kind, bool gated) {
  return activation_flops(kind) + (gated ? 1 : 0);
}

double activation_backward_flops(ActivationKind kind, bool gated) {
  return activation_flops(kind) + (gated ? 8 : 6);
}

Cost cost_of(const ActivationForwardArgs& args) {
  Cost cost =
      make_cost(args.in.dtype(), count(args.out) * activation_forward_flops(args.kind, args.gated),
                {&args.in}, {&args.out});
  cost += cost_of(args.forms, args.out);
  return cost;
}

Cost cost_of(const ActivationBackwardArgs& args) {
  return make_cost(args.in.dtype(),
                   count(args.d_out) * activation_backward_flops(args.kind, args.gated),
                   {&args.in, &args.d_out}, {&args.d_in});
}

}  // namespace viaduct
