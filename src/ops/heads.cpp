#include "ops/heads.h"

#include "ops/checks.h"
#include "ops/make_cost.h"
#include "ops/table.h"

namespace viaduct {
namespace {

/// `heads` is [T, N, D], `shared` is [T, D].
void check(std::string_view op, std::string_view heads_name, const Tensor& heads,
           std::string_view shared_name, const Tensor& shared) {
  check_rank(op, heads_name, heads, 3);
  check_floating(op, heads_name, heads);
  check_dense_rows(op, heads_name, heads);
  check_shape(op, shared_name, shared, {heads.dim(0), heads.dim(2)});
  check_floating(op, shared_name, shared);
  check_dense_rows(op, shared_name, shared);
  VIADUCT_CHECK(ShapeError, (heads.dtype() == DType::f64) == (shared.dtype() == DType::f64),
                "{}: {}: expected f64 only with f64, found {} and {}", op, heads_name,
                describe(heads), describe(shared));
}

}  // namespace

void repeat_heads(OpContext& context, const RepeatHeadsArgs& args) {
  constexpr std::string_view op = "repeat_heads";
  check(op, "out", args.out, "x", args.x);
  dispatch(context, op, context.ops.repeat_heads, args);
}

void sum_heads(OpContext& context, const SumHeadsArgs& args) {
  constexpr std::string_view op = "sum_heads";
  check(op, "x", args.x, "out", args.out);
  VIADUCT_CHECK(
      ShapeError,
      args.out.dtype() == args.x.dtype() || args.out.dtype() == accumulator_dtype(args.x.dtype()),
      "{}: out: expected the dtype of x or the one that it is summed in, found {} for {}", op,
      describe(args.out), describe(args.x));
  dispatch(context, op, context.ops.sum_heads, args);
}

Cost cost_of(const RepeatHeadsArgs& args) {
  return make_cost(args.out.dtype(), 0, {&args.x}, {&args.out});
}

Cost cost_of(const SumHeadsArgs& args) {
  return make_cost(args.x.dtype(), count(args.x), {&args.x}, {&args.out});
}

}  // namespace viaduct
