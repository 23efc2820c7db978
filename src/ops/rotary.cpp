#include "ops/rotary.h"

#include "ops/checks.h"
#include "ops/make_cost.h"
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

Cost cost_of(const RotaryArgs& args) {
  const int64_t pairs = args.x.dim(0) * args.x.dim(1) * args.cos.dim(1);
  const int64_t rotated = 2 * pairs * dtype_bytes(args.x.dtype());
  Cost cost = make_cost(args.x.dtype(), 6.0 * static_cast<double>(pairs), {&args.positions}, {});
  cost.bytes_read += rotated + 2 * args.x.dim(0) * args.cos.dim(1) * dtype_bytes(args.cos.dtype());
  cost.bytes_written = rotated;
  return cost;
}

}  // namespace viaduct
