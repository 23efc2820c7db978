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
  check_shape(kOp, "out", args.out, {1});
  check_dtype(kOp, "out", args.out, {DType::f32});
  VIADUCT_CHECK(ShapeError, !args.rotated || args.matrix.dim(0) % kRotated == 0,
                "{}: {} rows are rotated together, got {}", kOp, kRotated, describe(args.matrix));
  dispatch(context, kOp, context.ops.largest_magnitude, args);
}

}  // namespace viaduct
