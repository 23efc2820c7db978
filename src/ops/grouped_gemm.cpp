#include "ops/grouped_gemm.h"

#include "ops/checks.h"
#include "ops/table.h"

namespace viaduct {

void grouped_gemm(OpContext& context, const GroupedGemmArgs& args) {
  constexpr std::string_view kOp = "grouped_gemm";
  for (const auto& [name, tensor] :
       {std::pair<std::string_view, const Tensor&>{"a", args.a}, {"b", args.b}, {"c", args.c}}) {
    check_rank(kOp, name, tensor, 2);
    check_floating(kOp, name, tensor);
    check_dense_rows(kOp, name, tensor);
  }
  check_dtype(kOp, "b", args.b, {args.a.dtype()});
  check_dtype(kOp, "c", args.c, {args.a.dtype(), accumulator_dtype(args.a.dtype())});
  check_rank(kOp, "offsets", args.offsets, 1);
  check_dtype(kOp, "offsets", args.offsets, {DType::i32});
  check_contiguous(kOp, "offsets", args.offsets);
  const int64_t experts = args.offsets.dim(0) - 1;
  VIADUCT_CHECK(ShapeError, experts >= 1, "{}: {} offsets, expected one more than experts", kOp,
                experts + 1);
  const bool gradient = args.form == GemmForm::weight_gradient;
  const Tensor& weights = gradient ? args.c : args.b;
  check_contiguous(kOp, gradient ? "c" : "b", weights);
  VIADUCT_CHECK(ShapeError, weights.dim(0) % experts == 0,
                "{}: {} rows of weights do not divide by {} experts", kOp, weights.dim(0), experts);
  const int64_t n = weights.dim(0) / experts, k = weights.dim(1);
  const int64_t rows = args.a.dim(0);
  switch (args.form) {
    case GemmForm::forward:
      check_shape(kOp, "a", args.a, {rows, k});
      check_shape(kOp, "c", args.c, {rows, n});
      break;
    case GemmForm::data_gradient:
      check_shape(kOp, "a", args.a, {rows, n});
      check_shape(kOp, "c", args.c, {rows, k});
      break;
    case GemmForm::weight_gradient:
      check_shape(kOp, "a", args.a, {rows, n});
      check_shape(kOp, "b", args.b, {rows, k});
      break;
  }
  dispatch(context, kOp, context.ops.grouped_gemm, args);
}

GemmArgs product_of_expert(const GroupedGemmArgs& args, int64_t index, int64_t begin, int64_t end) {
  const int64_t experts = args.offsets.dim(0) - 1;
  GemmArgs product;
  product.form = args.form;
  product.mode = args.mode;
  const auto rows = [&](const Tensor& tensor) { return tensor.slice(0, begin, end - begin); };
  const auto weight = [&](const Tensor& tensor) {
    const int64_t n = tensor.dim(0) / experts;
    return tensor.slice(0, index * n, n);
  };
  const bool gradient = args.form == GemmForm::weight_gradient;
  product.a = rows(args.a);
  product.b = gradient ? rows(args.b) : weight(args.b);
  product.c = gradient ? weight(args.c) : rows(args.c);
  return product;
}

}  // namespace viaduct
