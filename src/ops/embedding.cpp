#include "ops/embedding.h"

#include "ops/checks.h"
#include "ops/make_cost.h"
#include "ops/table.h"

namespace viaduct {

void embedding_forward(OpContext& context, const EmbeddingForwardArgs& args) {
  constexpr std::string_view kOp = "embedding_forward";
  check_rank(kOp, "ids", args.ids, 1);
  check_dtype(kOp, "ids", args.ids, {DType::i32});
  check_contiguous(kOp, "ids", args.ids);
  check_rank(kOp, "weight", args.weight, 2);
  const DType dtype = args.weight.dtype();
  const bool codes = dtype == DType::e4m3 || dtype == DType::e5m2;
  if (!codes) check_floating(kOp, "weight", args.weight);
  VIADUCT_CHECK(ShapeError, !codes || (args.scale == 1 && args.mode == WriteMode::assign),
                "{}: weight: codes of FP8 are copied, and neither scaled nor added; found {}", kOp,
                describe(args.weight));
  check_contiguous(kOp, "weight", args.weight);
  check_shape(kOp, "out", args.out, {args.ids.dim(0), args.weight.dim(1)});
  check_dtype(kOp, "out", args.out, {dtype, codes ? dtype : accumulator_dtype(dtype)});
  check_dense_rows(kOp, "out", args.out);
  dispatch(context, kOp, context.ops.embedding_forward, args);
}

void embedding_backward(OpContext& context, const EmbeddingBackwardArgs& args) {
  constexpr std::string_view kOp = "embedding_backward";
  check_rank(kOp, "ids", args.ids, 1);
  check_dtype(kOp, "ids", args.ids, {DType::i32});
  check_contiguous(kOp, "ids", args.ids);
  check_rank(kOp, "d_weight", args.d_weight, 2);
  check_contiguous(kOp, "d_weight", args.d_weight);
  check_shape(kOp, "d_out", args.d_out, {args.ids.dim(0), args.d_weight.dim(1)});
  check_floating(kOp, "d_out", args.d_out);
  check_dense_rows(kOp, "d_out", args.d_out);
  check_dtype(kOp, "d_weight", args.d_weight, {accumulator_dtype(args.d_out.dtype())});
  dispatch(context, kOp, context.ops.embedding_backward, args);
}

Cost cost_of(const EmbeddingForwardArgs& args) {
  Cost cost = make_cost(args.weight.dtype(), count(args.out), {&args.ids}, {&args.out});
  cost.bytes_read += args.out.elements() * dtype_bytes(args.weight.dtype()) +
                     (args.mode == WriteMode::accumulate ? args.out.bytes() : 0);
  return cost;
}

Cost cost_of(const EmbeddingBackwardArgs& args) {
  Cost cost = make_cost(args.d_out.dtype(), 2 * count(args.d_out), {&args.ids, &args.d_out}, {});
  const int64_t touched = args.d_out.elements() * dtype_bytes(args.d_weight.dtype());
  cost.bytes_read += touched;
  cost.bytes_written = touched + (args.mode == WriteMode::assign ? args.d_weight.bytes() : 0);
  return cost;
}

}  // namespace viaduct
