#include "ops/expert_rows.h"

#include "ops/checks.h"
#include "ops/make_cost.h"
#include "ops/table.h"

namespace viaduct {
namespace {

void check_integers(std::string_view op, std::string_view argument, const Tensor& tensor,
                    const Shape& shape, DType dtype = DType::i32) {
  check_shape(op, argument, tensor, shape);
  check_dtype(op, argument, tensor, {dtype});
  check_contiguous(op, argument, tensor);
}

void check_rows(std::string_view op, std::string_view argument, const Tensor& tensor) {
  check_rank(op, argument, tensor, 2);
  check_floating(op, argument, tensor);
  check_dense_rows(op, argument, tensor);
}

/// Positions and weights of `tokens` tokens.
void check_places(std::string_view op, const Tensor& position, const Tensor& weight, int64_t tokens,
                  int64_t copies, DType rows) {
  check_rank(op, "position", position, 2);
  check_integers(op, "position", position, {tokens, position.dim(1)});
  VIADUCT_CHECK(ShapeError, copies >= 1 && position.dim(1) % copies == 0,
                "{}: {} places of a token in {} copies", op, position.dim(1), copies);
  if (!weight) return;
  check_shape(op, "weight", weight, {tokens, position.dim(1) / copies});
  check_dtype(op, "weight", weight, {accumulator_dtype(rows)});
  check_contiguous(op, "weight", weight);
}

void check_weight_gradient(std::string_view op, const Tensor& d_weight, const Tensor& weight) {
  check_shape(op, "d_weight", d_weight, weight.shape());
  check_dtype(op, "d_weight", d_weight, {weight.dtype()});
  check_contiguous(op, "d_weight", d_weight);
}

}  // namespace

void sort_by_expert(OpContext& context, const SortByExpertArgs& args) {
  constexpr std::string_view kOp = "sort_by_expert";
  check_rank(kOp, "choice", args.choice, 2);
  check_integers(kOp, "choice", args.choice, args.choice.shape());
  VIADUCT_CHECK(ShapeError,
                args.copies >= 1 && args.experts_per_rank >= 1 && args.experts_together >= 1,
                "{}: {} experts of a rank in {} copies, {} together", kOp, args.experts_per_rank,
                args.copies, args.experts_together);
  check_rank(kOp, "counts", args.counts, 1);
  const int64_t destinations = args.counts.dim(0);
  VIADUCT_CHECK(ShapeError, destinations % (args.copies * args.experts_per_rank) == 0,
                "{}: {} destinations, expected a multiple of {} experts · {} copies", kOp,
                destinations, args.experts_per_rank, args.copies);
  const int64_t tokens = args.choice.dim(0), places = args.choice.dim(1) * args.copies;
  VIADUCT_CHECK(ShapeError, args.rows_multiple >= 1 && args.rows_each % args.rows_multiple == 0,
                "{}: {} rows of each destination are not a multiple of {}", kOp, args.rows_each,
                args.rows_multiple);
  check_integers(kOp, "token", args.token,
                 {args.rows_each > 0 ? destinations * args.rows_each
                                     : tokens * places + destinations * (args.rows_multiple - 1)});
  check_integers(kOp, "position", args.position, {tokens, places});
  check_integers(kOp, "counts", args.counts, {destinations}, DType::i64);
  check_integers(kOp, "offsets", args.offsets, {destinations + 1});
  if (args.all_rows) check_integers(kOp, "all_rows", args.all_rows, {1}, DType::i64);
  dispatch(context, kOp, context.ops.sort_by_expert, args);
}

void arrival_order(OpContext& context, const ArrivalOrderArgs& args) {
  constexpr std::string_view kOp = "arrival_order";
  check_rank(kOp, "counts", args.counts, 2);
  check_integers(kOp, "counts", args.counts, args.counts.shape(), DType::i64);
  check_rank(kOp, "from", args.from, 1);
  check_integers(kOp, "from", args.from, args.from.shape());
  check_integers(kOp, "back", args.back, args.from.shape());
  check_integers(kOp, "offsets", args.offsets, {args.counts.dim(1) + 1});
  dispatch(context, kOp, context.ops.arrival_order, args);
}

void combine_rows(OpContext& context, const CombineRowsArgs& args) {
  constexpr std::string_view kOp = "combine_rows";
  check_rows(kOp, "rows", args.rows);
  check_rows(kOp, "out", args.out);
  check_shape(kOp, "out", args.out, {args.out.dim(0), args.rows.dim(1)});
  check_dtype(kOp, "out", args.out, {args.rows.dtype(), accumulator_dtype(args.rows.dtype())});
  check_places(kOp, args.position, args.weight, args.out.dim(0), args.copies, args.rows.dtype());
  dispatch(context, kOp, context.ops.combine_rows, args);
}

void combine_rows_backward(OpContext& context, const CombineRowsBackwardArgs& args) {
  constexpr std::string_view kOp = "combine_rows_backward";
  check_rows(kOp, "d_rows", args.d_rows);
  const DType rows = args.d_rows.dtype();
  check_rows(kOp, "d_out", args.d_out);
  check_shape(kOp, "d_out", args.d_out, {args.d_out.dim(0), args.d_rows.dim(1)});
  check_dtype(kOp, "d_out", args.d_out, {rows, accumulator_dtype(rows)});
  VIADUCT_CHECK(ShapeError, args.weight.defined(), "{}: expected weights", kOp);
  check_places(kOp, args.position, args.weight, args.d_out.dim(0), args.copies, rows);
  VIADUCT_CHECK(ShapeError, args.rows.defined() == args.d_weight.defined(),
                "{}: expected both or neither of rows and d_weight", kOp);
  if (args.rows) {
    check_rows(kOp, "rows", args.rows);
    check_shape(kOp, "rows", args.rows, args.d_rows.shape());
    check_dtype(kOp, "rows", args.rows, {rows});
    check_weight_gradient(kOp, args.d_weight, args.weight);
  }
  dispatch(context, kOp, context.ops.combine_rows_backward, args);
}

void row_dots(OpContext& context, const RowDotsArgs& args) {
  constexpr std::string_view kOp = "row_dots";
  check_rows(kOp, "x", args.x);
  check_rows(kOp, "y", args.y);
  check_shape(kOp, "y", args.y, {args.offsets ? args.y.dim(0) : args.x.dim(0), args.x.dim(1)});
  VIADUCT_CHECK(ShapeError, (args.x.dtype() == DType::f64) == (args.y.dtype() == DType::f64),
                "{}: y: expected f64 only with f64, found {} for {}", kOp, describe(args.y),
                describe(args.x));
  check_shape(kOp, "out", args.out, {args.x.dim(0), 1});
  check_dtype(kOp, "out", args.out, {accumulator_dtype(args.x.dtype())});
  check_contiguous(kOp, "out", args.out);
  if (args.offsets) check_integers(kOp, "offsets", args.offsets, {args.y.dim(0) + 1});
  dispatch(context, kOp, context.ops.row_dots, args);
}

void combine_weights_backward(OpContext& context, const CombineWeightsBackwardArgs& args) {
  constexpr std::string_view kOp = "combine_weights_backward";
  check_rank(kOp, "dots", args.dots, 2);
  check_shape(kOp, "dots", args.dots, {args.dots.dim(0), 1});
  check_dtype(kOp, "dots", args.dots, {DType::f32, DType::f64});
  check_contiguous(kOp, "dots", args.dots);
  check_rank(kOp, "weight", args.weight, 2);
  check_places(kOp, args.position, args.weight, args.weight.dim(0), args.copies, args.dots.dtype());
  check_weight_gradient(kOp, args.d_weight, args.weight);
  dispatch(context, kOp, context.ops.combine_weights_backward, args);
}

Cost cost_of(const CombineRowsBackwardArgs& args) {
  const DType dtype = args.d_rows.dtype();
  const int64_t moved = args.position.elements() * args.d_rows.dim(1);
  const int64_t bytes = moved * dtype_bytes(dtype);
  Cost cost = make_cost(dtype, (args.rows ? 3.0 : 1.0) * static_cast<double>(moved),
                        {&args.d_out, &args.position, &args.weight}, {&args.d_weight});
  cost.bytes_read += args.rows ? bytes : 0;
  cost.bytes_written += bytes;
  return cost;
}

Cost cost_of(const RowDotsArgs& args) {
  Cost cost =
      make_cost(args.x.dtype(), 2 * count(args.x), {&args.x, &args.y, &args.offsets}, {&args.out});
  if (args.mode == WriteMode::accumulate) cost.bytes_read += args.out.bytes();
  return cost;
}

Cost cost_of(const CombineWeightsBackwardArgs& args) {
  return make_cost(args.dots.dtype(), count(args.position) + count(args.weight),
                   {&args.dots, &args.position, &args.weight}, {&args.d_weight});
}

}  // namespace viaduct
