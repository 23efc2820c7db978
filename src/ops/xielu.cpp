#include "ops/xielu.h"

#include "ops/checks.h"
#include "ops/make_cost.h"
#include "ops/table.h"

namespace viaduct {
namespace {

void check_rows(std::string_view op, std::string_view name, const Tensor& x, const Tensor& in) {
  check_shape(op, name, x, in.shape());
  check_dtype(op, name, x, {in.dtype()});
  check_dense_rows(op, name, x);
}

void check_slope(std::string_view op, std::string_view name, const Tensor& alpha,
                 const Tensor& in) {
  check_shape(op, name, alpha, {1});
  check_floating(op, name, alpha);
  VIADUCT_CHECK(ShapeError, accumulator_dtype(alpha.dtype()) == accumulator_dtype(in.dtype()),
                "{}: {}: expected a dtype that is summed in {}, found {}", op, name,
                dtype_name(accumulator_dtype(in.dtype())), describe(alpha));
}

void check_input(std::string_view op, const Tensor& in, const Tensor& alpha_p,
                 const Tensor& alpha_n) {
  check_rank(op, "in", in, 2);
  check_floating(op, "in", in);
  check_dense_rows(op, "in", in);
  check_slope(op, "alpha_p", alpha_p, in);
  check_slope(op, "alpha_n", alpha_n, in);
}

constexpr double kXieluFlops = 18;  // of which an exponential is 12

}  // namespace

void xielu_forward(OpContext& context, const XieluForwardArgs& args) {
  constexpr std::string_view op = "xielu_forward";
  check_input(op, args.in, args.alpha_p, args.alpha_n);
  check_rows(op, "out", args.out, args.in);
  dispatch(context, op, context.ops.xielu_forward, args);
}

void xielu_backward(OpContext& context, const XieluBackwardArgs& args) {
  constexpr std::string_view op = "xielu_backward";
  check_input(op, args.in, args.alpha_p, args.alpha_n);
  check_rows(op, "d_out", args.d_out, args.in);
  check_rows(op, "d_in", args.d_in, args.in);
  VIADUCT_CHECK(ShapeError, args.d_alpha_p.defined() == args.d_alpha_n.defined(),
                "{}: expected both of d_alpha_p and d_alpha_n, or neither", op);
  for (const Tensor& sum : {args.d_alpha_p, args.d_alpha_n}) {
    if (!sum.defined()) continue;
    check_shape(op, "d_alpha", sum, {1});
    check_dtype(op, "d_alpha", sum, {accumulator_dtype(args.in.dtype())});
  }
  dispatch(context, op, context.ops.xielu_backward, args);
}

Cost cost_of(const XieluForwardArgs& args) {
  return make_cost(args.in.dtype(), kXieluFlops * count(args.in),
                   {&args.in, &args.alpha_p, &args.alpha_n}, {&args.out});
}

Cost cost_of(const XieluBackwardArgs& args) {
  return make_cost(args.in.dtype(), 2 * kXieluFlops * count(args.in),
                   {&args.in, &args.d_out, &args.alpha_p, &args.alpha_n}, {&args.d_in});
}

}  // namespace viaduct
