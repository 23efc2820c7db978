#include "optim/newton_schulz.h"

#include "ops/elementwise.h"
#include "ops/gemm.h"
#include "ops/muon.h"
#include "ops/optimizer.h"

namespace viaduct {
namespace {

constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;

void divide_by_norm(OpContext& context, const Tensor& x) {
  const Tensor state = context.allocate(DType::f64, {kReproducibleSumSize}, MemoryTag::workspace);
  const Tensor sum = context.allocate(DType::f64, {1}, MemoryTag::workspace);
  fill(context, {state, 0});
  reproducible_sum(context, {x, {}, true, state});
  sum_value(context, {state, sum});
  normalize(context, {x, sum});
}

Tensor product(OpContext& context, GemmForm form, const Tensor& a, const Tensor& b,
               const Tensor& c) {
  GemmArgs args;
  args.form = form;
  args.a = a, args.b = b, args.c = c;
  gemm(context, args);
  return c;
}

/// Of x [R, C], R ≤ C.
void iterate(OpContext& context, const Tensor& x, int steps) {
  const int64_t rows = x.dim(0);
  const auto square = [&] {
    return context.allocate(DType::f32, {rows, rows}, MemoryTag::workspace);
  };
  const Tensor a = square(), b = square();
  const Tensor bx = context.allocate(DType::f32, x.shape(), MemoryTag::workspace);
  for (int step = 0; step < steps; ++step) {
    product(context, GemmForm::forward, x, x, a);  // X · Xᵀ
    product(context, GemmForm::forward, a, a, b);  // A is symmetric
    scale(context, {a, a, kB});
    scale(context, {b, b, kC});
    add(context, {a, b, b});
    product(context, GemmForm::data_gradient, b, x, bx);
    scale(context, {x, x, kA});
    add(context, {x, bx, x});
  }
}

}  // namespace

void newton_schulz(OpContext& context, const Tensor& x, int steps) {
  divide_by_norm(context, x);
  if (x.dim(0) <= x.dim(1)) return iterate(context, x, steps);
  const Tensor wide = context.allocate(DType::f32, {x.dim(1), x.dim(0)}, MemoryTag::workspace);
  copy(context, {x.transposed(0, 1), wide});
  iterate(context, wide, steps);
  copy(context, {wide.transposed(0, 1), x});
}

}  // namespace viaduct
