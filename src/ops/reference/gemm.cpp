#include "ops/gemm.h"

#include "ops/reference/reference.h"

namespace viaduct::reference {
namespace {

/// A matrix of doubles accessed by (row, column), transposed if the form requires it.
struct Matrix {
  const double* data;
  int64_t row_stride, column_stride;
  double at(int64_t row, int64_t column) const {
    return data[row * row_stride + column * column_stride];
  }
};

Matrix as_is(const Tensor& t) {
  return {t.data<double>(), t.stride(0), 1};
}
Matrix transposed(const Tensor& t) {
  return {t.data<double>(), 1, t.stride(0)};
}

/// What the terms add to an element of the product.
double sum_of_terms(const GemmArgs& args, int64_t row, int64_t column) {
  double sum = 0;
  for (const GemmTerm& term : args.terms) {
    const Tensor& y = term.b.tensor();
    const Matrix a = as_is(term.a.tensor());
    const Matrix b = args.form == GemmForm::forward ? transposed(y) : as_is(y);
    const int64_t width = y.dim(args.form == GemmForm::forward ? 0 : 1);
    const int64_t own = column - term.first_column;
    if (own < 0 || own >= width) continue;
    for (int64_t k = 0; k < term.a.dim(1); ++k) sum += a.at(row, k) * b.at(k, own);
  }
  return sum;
}

void product(const GemmArgs& args) {
  const bool weight_gradient = args.form == GemmForm::weight_gradient;
  const Tensor &x = args.a.tensor(), &y = args.b.tensor();
  const Matrix a = weight_gradient ? transposed(x) : as_is(x);
  const Matrix b = args.form == GemmForm::forward ? transposed(y) : as_is(y);
  const int64_t contracted = weight_gradient ? args.a.dim(0) : args.a.dim(1);
  double* c = args.c.data<double>();
  const double* bias = args.bias ? args.bias.data<double>() : nullptr;
  for (int64_t i = 0; i < args.c.dim(0); ++i) {
    for (int64_t j = 0; j < args.c.dim(1); ++j) {
      double sum = 0;
      for (int64_t k = 0; k < contracted; ++k) sum += a.at(i, k) * b.at(k, j);
      sum += sum_of_terms(args, i, j);
      if (bias != nullptr) sum += bias[j];
      double& out = c[i * args.c.stride(0) + j];
      out = args.mode == WriteMode::accumulate ? out + sum : sum;
    }
  }
}

}  // namespace

void gemm(const GemmArgs& args) {
  const GemmEpilogue& epilogue = args.epilogue;
  GemmArgs plain = args;
  plain.epilogue = {};
  if (epilogue.raised) plain.c = host_tensor(DType::f64, {args.a.dim(0), args.b.dim(1)});
  product(plain);
  if (epilogue.residual) add({epilogue.residual, args.c, args.c});
  if (epilogue.activated)
    activation_forward({epilogue.activation, epilogue.gated, args.c, epilogue.activated});
  if (epilogue.raised)
    activation_backward({epilogue.activation, epilogue.gated, plain.c, epilogue.raised, args.c});
}

void column_sum(const ColumnSumArgs& args) {
  const double* x = args.x.data<double>();
  double* out = args.out.data<double>();
  for (int64_t j = 0; j < args.x.dim(1); ++j) {
    double sum = 0;
    for (int64_t i = 0; i < args.x.dim(0); ++i) sum += x[i * args.x.stride(0) + j];
    out[j] = args.mode == WriteMode::accumulate ? out[j] + sum : sum;
  }
}

}  // namespace viaduct::reference
