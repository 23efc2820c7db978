// Norms per kind and dtype, forward and backward.

#include "op_benchmark.h"

namespace viaduct {
namespace {

void norm(benchmark::State& state, NormKind kind, DType dtype, bool backward) {
  OpBench bench;
  const int64_t T = state.range(0), H = state.range(1);
  const bool layer = kind == NormKind::layer_norm;
  const Tensor x = bench.random(dtype, {T, H}, 1), weight = bench.random(dtype, {H}, 2, 1, 0.1);
  const Tensor bias = layer ? bench.random(dtype, {H}, 3, 0, 0.1) : Tensor();
  const Tensor y = bench.empty(dtype, {T, H}), rstd = bench.empty(DType::f32, {T});
  const Tensor mean = layer ? bench.empty(DType::f32, {T}) : Tensor();
  const NormForwardArgs forward_args{kind, x, weight, bias, y, mean, rstd};
  norm_forward(bench.context, forward_args);
  if (!backward) {
    return run_op(state, bench, [&] { norm_forward(bench.context, forward_args); });
  }
  const Tensor dy = bench.random(dtype, {T, H}, 4), residual = bench.random(dtype, {T, H}, 5);
  const Tensor d_weight = bench.random(DType::f32, {H}, 6);
  const Tensor d_bias = layer ? bench.random(DType::f32, {H}, 7) : Tensor();
  const Tensor dx = bench.empty(dtype, {T, H});
  run_op(state, bench, [&] {
    norm_backward(bench.context, {kind, dy, x, weight, mean, rstd, residual, dx, d_weight, d_bias});
  });
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"T", "H"})->Args({4096, 384})->Args({4096, 768})->Args({1024, 4096});
}

BENCHMARK_CAPTURE(norm, rms_bf16_forward, NormKind::rms_norm, DType::bf16, false)->Apply(shapes);
BENCHMARK_CAPTURE(norm, rms_bf16_backward, NormKind::rms_norm, DType::bf16, true)->Apply(shapes);
BENCHMARK_CAPTURE(norm, rms_f32_forward, NormKind::rms_norm, DType::f32, false)->Apply(shapes);
BENCHMARK_CAPTURE(norm, rms_f32_backward, NormKind::rms_norm, DType::f32, true)->Apply(shapes);
BENCHMARK_CAPTURE(norm, layer_bf16_forward, NormKind::layer_norm, DType::bf16, false)
    ->Apply(shapes);
BENCHMARK_CAPTURE(norm, layer_bf16_backward, NormKind::layer_norm, DType::bf16, true)
    ->Apply(shapes);

}  // namespace
}  // namespace viaduct
