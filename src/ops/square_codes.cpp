#include "ops/square_codes.h"

#include "ops/checks.h"
#include "ops/make_cost.h"
#include "ops/table.h"
#include "tensor/nvfp4.h"

namespace viaduct {
namespace {

/// `squares`: what there is one of for each square.
template <class Args>
void check_part(std::string_view op, const Args& args, std::string_view name,
                const Tensor& squares) {
  check_rank(op, "part", args.part, 1);
  check_dtype(op, "part", args.part, {DType::f32, DType::bf16, DType::f16});
  check_contiguous(op, "part", args.part);
  check_rank(op, name, squares, 2);
  check_contiguous(op, name, squares);
  const int64_t across = (args.columns + kNvfp4Group - 1) / kNvfp4Group;
  const int64_t end = args.begin + args.part.dim(0);
  VIADUCT_CHECK(ShapeError,
                args.columns > 0 && args.begin >= 0 && squares.dim(1) == across &&
                    end <= squares.dim(0) * kNvfp4Group * args.columns,
                "{}: elements {} to {} of a matrix with {} columns are not in its squares of {} x "
                "{} with {} {}",
                op, args.begin, end, args.columns, kNvfp4Group, kNvfp4Group, name,
                describe(squares));
}

}  // namespace

void square_magnitudes(OpContext& context, const SquareMagnitudesArgs& args) {
  constexpr std::string_view kOp = "square_magnitudes";
  check_part(kOp, args, "magnitudes", args.magnitudes);
  check_dtype(kOp, "magnitudes", args.magnitudes, {DType::f32});
  dispatch(context, kOp, context.ops.square_magnitudes, args);
}

void square_scales(OpContext& context, const SquareScalesArgs& args) {
  constexpr std::string_view kOp = "square_scales";
  check_rank(kOp, "magnitudes", args.magnitudes, 2);
  check_dtype(kOp, "magnitudes", args.magnitudes, {DType::f32});
  check_contiguous(kOp, "magnitudes", args.magnitudes);
  check_shape(kOp, "scales", args.scales, args.magnitudes.shape());
  check_dtype(kOp, "scales", args.scales, {DType::e4m3});
  check_contiguous(kOp, "scales", args.scales);
  check_shape(kOp, "amax", args.amax, {1});
  check_dtype(kOp, "amax", args.amax, {DType::f32});
  check_shape(kOp, "matrix_scale", args.matrix_scale, {1});
  check_dtype(kOp, "matrix_scale", args.matrix_scale, {DType::f32});
  dispatch(context, kOp, context.ops.square_scales, args);
}

void square_codes(OpContext& context, const SquareCodesArgs& args) {
  constexpr std::string_view kOp = "square_codes";
  check_part(kOp, args, "scales", args.scales);
  check_dtype(kOp, "scales", args.scales, {DType::e4m3});
  check_shape(kOp, "matrix_scale", args.matrix_scale, {1});
  check_dtype(kOp, "matrix_scale", args.matrix_scale, {DType::f32});
  const int64_t elements = args.part.dim(0);
  VIADUCT_CHECK(ShapeError, args.begin % 2 == 0 && args.columns % 2 == 0 && elements % 2 == 0,
                "{}: two elements share a byte, got {} elements from {} on of a matrix with {} "
                "columns",
                kOp, elements, args.begin, args.columns);
  check_shape(kOp, "codes", args.codes, {elements / 2});
  check_dtype(kOp, "codes", args.codes, {DType::e2m1x2});
  check_contiguous(kOp, "codes", args.codes);
  dispatch(context, kOp, context.ops.square_codes, args);
}

Cost cost_of(const SquareMagnitudesArgs& args) {
  return make_cost(args.part.dtype(), count(args.part), {&args.part, &args.magnitudes},
                   {&args.magnitudes});
}

Cost cost_of(const SquareScalesArgs& args) {
  return make_cost(DType::f32, 3 * count(args.magnitudes), {&args.magnitudes, &args.amax},
                   {&args.scales, &args.matrix_scale});
}

Cost cost_of(const SquareCodesArgs& args) {
  return make_cost(args.part.dtype(), 0, {&args.part, &args.scales, &args.matrix_scale},
                   {&args.codes});
}

}  // namespace viaduct
