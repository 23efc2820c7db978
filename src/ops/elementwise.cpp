#include "ops/elementwise.h"

#include "ops/checks.h"
#include "ops/make_cost.h"
#include "ops/table.h"

namespace viaduct {
namespace {

void check_operand(std::string_view op, std::string_view argument, const Tensor& tensor,
                   const Tensor& out) {
  check_shape(op, argument, tensor, out.shape());
  check_floating(op, argument, tensor);
  check_dense_rows(op, argument, tensor);
  VIADUCT_CHECK(ShapeError, (tensor.dtype() == DType::f64) == (out.dtype() == DType::f64),
                "{}: expected {} and out both f64 or neither, got {} and {}", op, argument,
                describe(tensor), describe(out));
}

void check_result(std::string_view op, const Tensor& out) {
  check_floating(op, "out", out);
  check_dense_rows(op, "out", out);
}

}  // namespace

void add(OpContext& context, const AddArgs& args) {
  check_result("add", args.out);
  check_operand("add", "a", args.a, args.out);
  check_operand("add", "b", args.b, args.out);
  dispatch(context, "add", context.ops.add, args);
}

void multiply(OpContext& context, const MultiplyArgs& args) {
  check_rank("multiply", "out", args.out, 3);
  check_result("multiply", args.out);
  check_operand("multiply", "a", args.a, args.out);
  check_rank("multiply", "b", args.b, 2);
  check_shape("multiply", "b", args.b, {args.out.dim(0), args.out.dim(2)});
  if (args.out.elements() > 0)
    check_operand("multiply", "b", args.b, args.out.slice(1, 0, 1).view(args.b.shape()));
  dispatch(context, "multiply", context.ops.multiply, args);
}

void copy(OpContext& context, const CopyArgs& args) {
  VIADUCT_CHECK(ShapeError, args.from.defined() && args.to.defined(),
                "copy: expected two tensors, got {} and {}", describe(args.from),
                describe(args.to));
  check_shape("copy", "from", args.from, args.to.shape());
  const bool floating = is_floating(args.from.dtype()) && is_floating(args.to.dtype());
  VIADUCT_CHECK(ShapeError, floating || args.from.dtype() == args.to.dtype(),
                "copy: expected floating tensors or equal dtypes, got {} to {}",
                describe(args.from), describe(args.to));
  VIADUCT_CHECK(ShapeError, floating || args.mode == WriteMode::assign,
                "copy: expected floating tensors to accumulate, got {}", describe(args.to));
  dispatch(context, "copy", context.ops.copy, args);
}

void sum_rows(OpContext& context, const SumRowsArgs& args) {
  constexpr std::string_view kOp = "sum_rows";
  check_rank(kOp, "x", args.x, 2);
  check_floating(kOp, "x", args.x);
  check_contiguous(kOp, "x", args.x);
  VIADUCT_CHECK(ShapeError, args.x.dim(0) >= 1, "sum_rows: x: expected a row at least, found {}",
                describe(args.x));
  check_shape(kOp, "out", args.out, {args.x.dim(1)});
  check_dtype(kOp, "out", args.out, {accumulator_dtype(args.x.dtype())});
  check_contiguous(kOp, "out", args.out);
  dispatch(context, kOp, context.ops.sum_rows, args);
}

void scale(OpContext& context, const ScaleArgs& args) {
  check_result("scale", args.out);
  check_operand("scale", "x", args.x, args.out);
  dispatch(context, "scale", context.ops.scale, args);
}

void fill(OpContext& context, const FillArgs& args) {
  check_floating("fill", "out", args.out);
  check_contiguous("fill", "out", args.out);
  dispatch(context, "fill", context.ops.fill, args);
}

void dropout(OpContext& context, const DropoutArgs& args) {
  constexpr std::string_view kOp = "dropout";
  check_rank(kOp, "out", args.out, 2);
  check_result(kOp, args.out);
  check_operand(kOp, "x", args.x, args.out);
  if (args.residual) check_operand(kOp, "residual", args.residual, args.out);
  VIADUCT_CHECK(ShapeError, args.probability >= 0 && args.probability < 1,
                "dropout: expected a probability in [0, 1), got {}", args.probability);
  VIADUCT_CHECK(ShapeError, args.first_feature >= 0, "dropout: expected first_feature ≥ 0, got {}",
                args.first_feature);
  if (args.probability > 0) {
    check_shape(kOp, "token_index", args.token_index, {args.out.dim(0)});
    check_dtype(kOp, "token_index", args.token_index, {DType::i64});
    check_contiguous(kOp, "token_index", args.token_index);
  }
  dispatch(context, kOp, context.ops.dropout, args);
}

void random_normal(OpContext& context, const RandomNormalArgs& args) {
  constexpr std::string_view kOp = "random_normal";
  check_result(kOp, args.out);
  VIADUCT_CHECK(ShapeError, args.out.rank() == 1 || args.out.rank() == 2,
                "random_normal: expected out of rank 1 or 2, got {}", describe(args.out));
  VIADUCT_CHECK(ShapeError, args.first_row >= 0 && args.first_column >= 0 && args.row_elements >= 0,
                "random_normal: expected a place ≥ 0 in the logical tensor, got row {}, column {} "
                "of rows of {}",
                args.first_row, args.first_column, args.row_elements);
  dispatch(context, kOp, context.ops.random_normal, args);
}

Cost cost_of(const AddArgs& args) {
  return make_cost(args.out.dtype(), count(args.out), {&args.a, &args.b}, {&args.out});
}

Cost cost_of(const MultiplyArgs& args) {
  return make_cost(args.out.dtype(), count(args.out), {&args.a, &args.b}, {&args.out});
}

Cost cost_of(const CopyArgs& args) {
  const bool accumulate = args.mode == WriteMode::accumulate;
  Cost cost = make_cost(args.to.dtype(), accumulate ? count(args.to) : 0, {&args.from}, {&args.to});
  if (accumulate) cost.bytes_read += args.to.bytes();
  return cost;
}

Cost cost_of(const SumRowsArgs& args) {
  return make_cost(args.out.dtype(), count(args.x), {&args.x}, {&args.out});
}

Cost cost_of(const ScaleArgs& args) {
  return make_cost(args.out.dtype(), count(args.out), {&args.x}, {&args.out});
}

Cost cost_of(const FillArgs& args) {
  return make_cost(args.out.dtype(), 0, {}, {&args.out});
}

/// Random numbers cost about 16 integer operations per element, which no format counts.
Cost cost_of(const DropoutArgs& args) {
  return make_cost(args.out.dtype(), 2 * count(args.out),
                   {&args.x, &args.residual, &args.token_index}, {&args.out});
}

Cost cost_of(const RandomNormalArgs& args) {
  return make_cost(DType::f64, 40 * count(args.out), {}, {&args.out});
}

}  // namespace viaduct
