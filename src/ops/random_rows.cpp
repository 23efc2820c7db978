#include "ops/random_rows.h"

#include "ops/checks.h"
#include "ops/table.h"

namespace viaduct {
namespace {

void check_tokens(std::string_view op, const Tensor& out, const Tensor& token_index) {
  check_rank(op, "out", out, 2);
  check_dense_rows(op, "out", out);
  check_shape(op, "token_index", token_index, {out.dim(0)});
  check_dtype(op, "token_index", token_index, {DType::i64});
  check_contiguous(op, "token_index", token_index);
}

}  // namespace

void jitter(OpContext& context, const JitterArgs& args) {
  constexpr std::string_view kOp = "jitter";
  check_tokens(kOp, args.out, args.token_index);
  check_floating(kOp, "out", args.out);
  check_shape(kOp, "x", args.x, args.out.shape());
  check_dtype(kOp, "x", args.x, {args.out.dtype()});
  check_dense_rows(kOp, "x", args.x);
  VIADUCT_CHECK(ShapeError, args.epsilon >= 0 && args.epsilon < 1,
                "{}: epsilon {}, expected 0 to 1", kOp, args.epsilon);
  dispatch(context, kOp, context.ops.jitter, args);
}

void random_rows(OpContext& context, const RandomRowsArgs& args) {
  constexpr std::string_view kOp = "random_rows";
  check_tokens(kOp, args.out, args.token_index);
  check_dtype(kOp, "out", args.out, {DType::f32, DType::f64});
  dispatch(context, kOp, context.ops.random_rows, args);
}

}  // namespace viaduct
