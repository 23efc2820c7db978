#include "ops/largest_magnitude.h"

#include "ops/checks.h"
#include "ops/table.h"
#include "tensor/hadamard.h"

namespace viaduct {

void largest_magnitude(OpContext& context, const LargestMagnitudeArgs& args) {
  constexpr std::string_view kOp = "largest_magnitude";
  check_rank(kOp, "matrix", args.matrix, 2);
  check_dtype(kOp, "matrix", args.matrix, {DType::f32, DType::bf16, DType::f16});
  check_dense_rows(kOp, "matrix", args.matrix);
  check_rank(kOp, "out", args.out, 1);
  check_dtype(kOp, "out", args.out, {DType::f32});
  check_contiguous(kOp, "out", args.out);
  const int64_t groups = args.out.dim(0);
  if (args.offsets) {
    check_shape(kOp, "offsets", args.offsets, {groups + 1});
    check_dtype(kOp, "offsets", args.offsets, {DType::i32});
    check_contiguous(kOp, "offsets", args.offsets);
  } else {
    VIADUCT_CHECK(ShapeError, groups >= 1 && args.matrix.dim(0) % groups == 0,
                  "{}: {} rows do not divide by {} matrices", kOp, args.matrix.dim(0), groups);
  }
  VIADUCT_CHECK(ShapeError,
                !args.rotated || args.offsets || groups > 1 || args.matrix.dim(0) % kRotated == 0,
                "{}: {} rows are rotated together, got {}", kOp, kRotated, describe(args.matrix));
  dispatch(context, kOp, context.ops.largest_magnitude, args);
}

}  // namespace viaduct
