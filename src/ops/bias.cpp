#include "ops/bias.h"

#include "ops/checks.h"
#include "ops/make_cost.h"
#include "ops/table.h"

namespace viaduct {

void bias_add(OpContext& context, const BiasAddArgs& args) {
  constexpr std::string_view kOp = "bias_add";
  check_rank(kOp, "out", args.out, 2);
  check_shape(kOp, "x", args.x, args.out.shape());
  check_shape(kOp, "bias", args.bias, {args.out.dim(1)});
  for (const auto& [argument, tensor] : {std::pair<std::string_view, const Tensor&>{"x", args.x},
                                         {"bias", args.bias},
                                         {"out", args.out}}) {
    check_floating(kOp, argument, tensor);
    check_dense_rows(kOp, argument, tensor);
    VIADUCT_CHECK(ShapeError, (tensor.dtype() == DType::f64) == (args.out.dtype() == DType::f64),
                  "{}: expected {} and out both f64 or neither, got {} and {}", kOp, argument,
                  describe(tensor), describe(args.out));
  }
  dispatch(context, kOp, context.ops.bias_add, args);
}

Cost cost_of(const BiasAddArgs& args) {
  return make_cost(args.out.dtype(), count(args.out), {&args.x, &args.bias}, {&args.out});
}

}  // namespace viaduct
