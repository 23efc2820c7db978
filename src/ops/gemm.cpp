#include "ops/gemm.h"

#include "ops/checks.h"
#include "ops/table.h"
#include "ops/weight_tiles.h"

namespace viaduct {
namespace {

void check_epilogue(const GemmArgs& args) {
  constexpr std::string_view kOp = "gemm epilogue";
  const GemmEpilogue& epilogue = args.epilogue;
  const auto check = [&](std::string_view name, const Tensor& tensor, const Shape& shape) {
    check_shape(kOp, name, tensor, shape);
    check_dtype(kOp, name, tensor, {args.c.dtype()});
    check_dense_rows(kOp, name, tensor);
  };
  const GemmForm form = epilogue.raised ? GemmForm::data_gradient : GemmForm::forward;
  VIADUCT_CHECK(ShapeError, args.form == form && args.mode == WriteMode::assign,
                "gemm: a residual and an activation go with the forward form, the gradient of an "
                "activation with data_gradient, and each with assignment only");
  VIADUCT_CHECK(
      ShapeError,
      epilogue.residual.defined() + epilogue.activated.defined() + epilogue.raised.defined() == 1,
      "gemm: expected one epilogue, got residual {}, activated {}, raised {}",
      describe(epilogue.residual), describe(epilogue.activated), describe(epilogue.raised));
  if (epilogue.residual) {
    check("residual", epilogue.residual, args.c.shape());
    VIADUCT_CHECK(ShapeError, args.c.raw() == nullptr || args.c.raw() != epilogue.residual.raw(),
                  "gemm epilogue: residual is c itself, which the product overwrites");
  }
  if (epilogue.raised) check("raised", epilogue.raised, args.c.shape());
  if (!epilogue.activated) return;
  const int64_t columns = args.c.dim(1);
  VIADUCT_CHECK(ShapeError, !epilogue.gated || columns % 2 == 0,
                "gemm epilogue: expected gate | up of equal width in c, got {}", describe(args.c));
  check("activated", epilogue.activated, {args.c.dim(0), epilogue.gated ? columns / 2 : columns});
}

}  // namespace

void gemm(OpContext& context, const GemmArgs& args) {
  constexpr std::string_view kOp = "gemm";
  check_rank(kOp, "a", args.a, 2);
  check_rank(kOp, "b", args.b, 2);
  check_rank(kOp, "c", args.c, 2);
  check_same_floating(kOp, {&args.a, &args.b});
  check_dense_rows(kOp, "a", args.a);
  check_dense_rows(kOp, "b", args.b);
  check_dense_rows(kOp, "c", args.c);
  if (args.a.dtype() == DType::f64) {
    check_dtype(kOp, "c", args.c, {DType::f64});
  } else {
    check_dtype(kOp, "c", args.c, {args.a.dtype(), DType::f32});
  }
  const int64_t a0 = args.a.dim(0), a1 = args.a.dim(1), b0 = args.b.dim(0), b1 = args.b.dim(1);
  switch (args.form) {
    case GemmForm::forward:
      check_shape("gemm forward", "b", args.b, {b0, a1});
      check_shape("gemm forward", "c", args.c, {a0, b0});
      break;
    case GemmForm::data_gradient:
      check_shape("gemm data_gradient", "b", args.b, {a1, b1});
      check_shape("gemm data_gradient", "c", args.c,
                  {a0, args.epilogue.raised && args.epilogue.gated ? 2 * b1 : b1});
      break;
    case GemmForm::weight_gradient:
      check_shape("gemm weight_gradient", "b", args.b, {a0, b1});
      check_shape("gemm weight_gradient", "c", args.c, {a1, b1});
      break;
  }
  if (args.bias) {
    VIADUCT_CHECK(ShapeError, args.form == GemmForm::forward && args.mode == WriteMode::assign,
                  "gemm: a bias goes with the forward form and assignment only");
    check_shape(kOp, "bias", args.bias, {b0});
    check_dtype(kOp, "bias", args.bias, {args.a.dtype(), accumulator_dtype(args.a.dtype())});
    check_dense_rows(kOp, "bias", args.bias);
  }
  if (args.epilogue.any()) check_epilogue(args);
  if (args.b_tiles) {
    VIADUCT_CHECK(ShapeError, reads_weight_tiles(context.ops, args.b.dtype()),
                  "gemm: b as tiles, but {} reads none of {}", context.ops.traits.name,
                  dtype_name(args.b.dtype()));
    check_dtype(kOp, "b_tiles", args.b_tiles, {args.b.dtype()});
    check_shape(kOp, "b_tiles", args.b_tiles, weight_tiles_shape(args.form, args.b.shape()));
    check_contiguous(kOp, "b_tiles", args.b_tiles);
  }
  dispatch(context, kOp, context.ops.gemm, args);
}

void column_sum(OpContext& context, const ColumnSumArgs& args) {
  constexpr std::string_view kOp = "column_sum";
  check_rank(kOp, "x", args.x, 2);
  check_floating(kOp, "x", args.x);
  check_dense_rows(kOp, "x", args.x);
  check_shape(kOp, "out", args.out, {args.x.dim(1)});
  check_dtype(kOp, "out", args.out, {accumulator_dtype(args.x.dtype())});
  check_dense_rows(kOp, "out", args.out);
  dispatch(context, kOp, context.ops.column_sum, args);
}

}  // namespace viaduct
