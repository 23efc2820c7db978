#include "ops/grouped_gemm.h"

#include <algorithm>

#include "ops/checks.h"
#include "ops/quantized_forms.h"
#include "ops/table.h"

namespace viaduct {
namespace {

constexpr std::string_view kOp = "grouped_gemm";

/// `made`: here, from a tensor.
void check_amax(std::string_view name, const Tensor& amax, const OperandForm& form, bool made,
                int64_t experts) {
  const bool whole = made && has_matrix_scale(form);
  VIADUCT_CHECK(ShapeError, whole == amax.defined(), "{}: expected {} for operands {}, got {}", kOp,
                whole ? fmt::format("{} f32 [{}]", name, experts) : fmt::format("no {}", name),
                describe(form), describe(amax));
  if (!whole) return;
  check_shape(kOp, name, amax, {experts});
  check_dtype(kOp, name, amax, {DType::f32});
  check_contiguous(kOp, name, amax);
}

void check_quantization(const GroupedGemmArgs& args, int64_t experts, int64_t n) {
  const GemmForms forms = expert_forms(args);
  const bool plain = args.b.form().plain();
  check_amax("a_amax", args.a_amax, forms.a, true, experts);
  check_amax("b_amax", args.b_amax, forms.b, plain, experts);
  VIADUCT_CHECK(ShapeError,
                plain || (args.b.form() == forms.b && args.b.count() == experts &&
                          args.form != GemmForm::weight_gradient),
                "{}: expected weights as a tensor or as {} operands {}, got {}", kOp, experts,
                describe(forms.b), describe(args.b));
  if (!args.rounding.defined()) return;
  VIADUCT_CHECK(ShapeError,
                forms.a.element == DType::e2m1x2 && args.form != GemmForm::forward &&
                    !args.rounding.features.empty() && args.rounding.features.front().begin == 0 &&
                    args.rounding.features.back().begin < experts * n,
                "{}: stochastic rounding is for gradients of e2m1 with features from column 0 on, "
                "got {}",
                kOp, describe(forms.a));
  check_shape(kOp, "token_index", args.rounding.token_index, {1});
  check_dtype(kOp, "token_index", args.rounding.token_index, {DType::i64});
}

}  // namespace

void grouped_gemm(OpContext& context, const GroupedGemmArgs& args) {
  const auto check_matrix = [](std::string_view name, const Tensor& tensor) {
    check_rank(kOp, name, tensor, 2);
    check_floating(kOp, name, tensor);
    check_dense_rows(kOp, name, tensor);
  };
  check_matrix("a", args.a);
  check_matrix("c", args.c);
  if (args.b.form().plain()) check_matrix("b", args.b.tensor());
  VIADUCT_CHECK(ShapeError, args.b.dtype() == args.a.dtype(), "{}: b has dtype {}, expected {}",
                kOp, dtype_name(args.b.dtype()), dtype_name(args.a.dtype()));
  check_dtype(kOp, "c", args.c, {args.a.dtype(), accumulator_dtype(args.a.dtype())});
  check_rank(kOp, "offsets", args.offsets, 1);
  check_dtype(kOp, "offsets", args.offsets, {DType::i32});
  check_contiguous(kOp, "offsets", args.offsets);
  const int64_t experts = args.offsets.dim(0) - 1;
  VIADUCT_CHECK(ShapeError, experts >= 1, "{}: {} offsets, expected one more than experts", kOp,
                experts + 1);
  const bool gradient = args.form == GemmForm::weight_gradient;
  if (gradient) {
    check_contiguous(kOp, "c", args.c);
  } else {
    check_contiguous(kOp, "b", args.b.values());
  }
  const Shape& weights = shape_of_weights(args);
  VIADUCT_CHECK(ShapeError, weights[0] % experts == 0,
                "{}: {} rows of weights do not divide by {} experts", kOp, weights[0], experts);
  const int64_t n = weights[0] / experts, k = weights[1];
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
      check_shape(kOp, "b", args.b.tensor(), {rows, k});
      break;
  }
  check_quantization(args, experts, n);
  dispatch(context, kOp, context.ops.grouped_gemm, args);
}

const Shape& shape_of_weights(const GroupedGemmArgs& args) {
  return args.form == GemmForm::weight_gradient ? args.c.shape() : args.b.shape();
}

GemmForms expert_forms(const GroupedGemmArgs& args) {
  if (args.a.dtype() == DType::f64) return {};
  return quantized_forms(args.form, args.quantization);
}

StochasticRounding rounding_of_expert(const GroupedGemmArgs& args, int64_t index) {
  return rounding_of_matrix(args.rounding, args.a.dim(1), index);
}

StochasticRounding rounding_of_matrix(const StochasticRounding& rounding, int64_t columns,
                                      int64_t index) {
  if (!rounding.defined()) return {};
  const int64_t n = columns, begin = index * n;
  StochasticRounding own{rounding.key, rounding.token_index, {}};
  const std::vector<FeatureRun>& runs = rounding.features;
  for (size_t i = 0; i < runs.size(); ++i) {
    const bool ends_before = i + 1 < runs.size() && runs[i + 1].begin <= begin;
    if (ends_before || runs[i].begin >= begin + n) continue;
    const int64_t from = std::max(runs[i].begin, begin);
    own.features.push_back(
        {from - begin, runs[i].first + static_cast<uint64_t>(from - runs[i].begin)});
  }
  return own;
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
  if (!args.b.form().plain()) {
    product.b = args.b.member(index);
  } else {
    product.b = gradient ? rows(args.b.tensor()) : weight(args.b.tensor());
  }
  product.c = gradient ? weight(args.c) : rows(args.c);
  return product;
}

}  // namespace viaduct
