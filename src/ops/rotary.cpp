#include "ops/rotary.h"

#include "ops/checks.h"
#include "ops/table.h"

namespace viaduct {

void rotary(OpContext& context, const RotaryArgs& args) {
  constexpr std::string_view op = "rotary";
  check_rank(op, "x", args.x, 3);
  check_floating(op, "x", args.x);
  check_dense_rows(op, "x", args.x);
  check_shape(op, "positions", args.positions, {args.x.dim(0)});
  check_dtype(op, "positions", args.positions, {DType::i32});
  check_contiguous(op, "positions", args.positions);
  check_rank(op, "cos", args.cos, 2);
  check_shape(op, "sin", args.sin, args.cos.shape());
  for (const Tensor* table : {&args.cos, &args.sin}) {
    check_dtype(op, table == &args.cos ? "cos" : "sin", *table,
                {accumulator_dtype(args.x.dtype())});
    check_contiguous(op, table == &args.cos ? "cos" : "sin", *table);
  }
  VIADUCT_CHECK(ShapeError, 2 * args.cos.dim(1) <= args.x.dim(2),
                "rotary: cos: expected at most {} columns for heads of {}, found {}",
                args.x.dim(2) / 2, args.x.dim(2), describe(args.cos));
  dispatch(context, op, context.ops.rotary, args);
}

}  // namespace viaduct
