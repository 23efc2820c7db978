#include "ops/softmax.h"

#include "ops/checks.h"
#include "ops/make_cost.h"
#include "ops/table.h"

namespace viaduct {
namespace {

// Operations of an exponential (a polynomial of degree 7), and of a tanh based on one.
constexpr double kExponentialFlops = 18, kTanhFlops = 24;

std::string_view name_of(RowValue value) {
  constexpr std::string_view kNames[] = {"row_largest", "row_sum", "row_pick"};
  return kNames[static_cast<int>(value)];
}

std::string_view name_of(RowMap map) {
  constexpr std::string_view kNames[] = {"soft_cap", "soft_cap_backward", "row_exponential",
                                         "row_divide", "softmax_loss_backward"};
  return kNames[static_cast<int>(map)];
}

/// Checks for a matrix of f32 or f64 with dense rows, and the number of its columns.
void check_matrix(std::string_view op, const Tensor& x, int64_t columns) {
  check_rank(op, "x", x, 2);
  check_dtype(op, "x", x, {DType::f32, DType::f64});
  check_dense_rows(op, "x", x);
  VIADUCT_CHECK(ShapeError, columns >= 0 && columns <= x.dim(1),
                "{}: expected columns in [0, {}], got {}", op, x.dim(1), columns);
}

/// Checks for another matrix of the shape and dtype of `x`.
void check_like(std::string_view op, std::string_view argument, const Tensor& tensor,
                const Tensor& x) {
  check_shape(op, argument, tensor, x.shape());
  check_dtype(op, argument, tensor, {x.dtype()});
  check_dense_rows(op, argument, tensor);
}

/// Checks for one value per row of `x`.
void check_vector(std::string_view op, std::string_view argument, const Tensor& tensor, DType dtype,
                  const Tensor& x) {
  check_shape(op, argument, tensor, {x.dim(0)});
  check_dtype(op, argument, tensor, {dtype});
  check_contiguous(op, argument, tensor);
}

void check_targets(std::string_view op, const RowTargets& targets, const Tensor& x) {
  check_vector(op, "targets", targets.ids, DType::i32, x);
  VIADUCT_CHECK(ShapeError, targets.first_column >= 0, "{}: expected first_column ≥ 0, got {}", op,
                targets.first_column);
}

}  // namespace

void reduce_rows(OpContext& context, const ReduceRowsArgs& args) {
  const std::string_view op = name_of(args.value);
  check_matrix(op, args.x, args.columns);
  check_vector(op, "out", args.out, args.x.dtype(), args.x);
  if (args.value == RowValue::pick) check_targets(op, args.targets, args.x);
  dispatch(context, op, context.ops.reduce_rows, args);
}

void map_rows(OpContext& context, const MapRowsArgs& args) {
  const std::string_view op = name_of(args.map);
  check_matrix(op, args.x, args.columns);
  check_like(op, "out", args.out, args.x);
  if (args.map == RowMap::soft_cap || args.map == RowMap::soft_cap_backward)
    VIADUCT_CHECK(ShapeError, args.cap > 0, "{}: expected cap > 0, got {}", op, args.cap);
  if (args.map == RowMap::soft_cap_backward) check_like(op, "by", args.by, args.x);
  if (args.map == RowMap::exponential || args.map == RowMap::divide)
    check_vector(op, "by", args.by, args.x.dtype(), args.x);
  if (args.map == RowMap::loss_backward) {
    check_targets(op, args.targets, args.x);
    check_vector(op, "weight", args.weight, DType::f32, args.x);
    check_shape(op, "factor", args.factor, {1});
    check_dtype(op, "factor", args.factor, {DType::f64});
  }
  dispatch(context, op, context.ops.map_rows, args);
}

/// A pick reads one element of a row.
Cost cost_of(const ReduceRowsArgs& args) {
  if (args.value == RowValue::pick)
    return make_cost(args.out.dtype(), 0, {&args.out, &args.targets.ids}, {&args.out});
  return make_cost(args.x.dtype(), count(args.x), {&args.x}, {&args.out});
}

Cost cost_of(const MapRowsArgs& args) {
  constexpr double kFlops[] = {kTanhFlops, 4, kExponentialFlops, 1, 2};
  return make_cost(args.x.dtype(), kFlops[static_cast<int>(args.map)] * count(args.x),
                   {&args.x, &args.by, &args.targets.ids, &args.weight}, {&args.out});
}

}  // namespace viaduct
