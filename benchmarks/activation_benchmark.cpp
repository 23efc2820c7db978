// Activations of the feed-forward per kind and dtype, forward and backward.

#include "op_benchmark.h"

namespace viaduct {
namespace {

void activation(benchmark::State& state, ActivationKind kind, bool gated, DType dtype,
                bool backward) {
  OpBench bench;
  const int64_t T = state.range(0), F = state.range(1), width = gated ? 2 * F : F;
  const Tensor in = bench.random(dtype, {T, width}, 1), out = bench.random(dtype, {T, F}, 2);
  const Tensor d_in = bench.empty(dtype, {T, width});
  run_op(state, bench, [&] {
    if (backward) {
      activation_backward(bench.context, {kind, gated, out, in, d_in});
    } else {
      activation_forward(bench.context, {kind, gated, in, out});
    }
  });
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"T", "F"})->Args({4096, 1024})->Args({4096, 2048})->Args({4096, 3072});
}

constexpr auto kSilu = ActivationKind::silu, kGelu = ActivationKind::gelu_tanh;
BENCHMARK_CAPTURE(activation, swiglu_bf16_forward, kSilu, true, DType::bf16, false)->Apply(shapes);
BENCHMARK_CAPTURE(activation, swiglu_bf16_backward, kSilu, true, DType::bf16, true)->Apply(shapes);
BENCHMARK_CAPTURE(activation, swiglu_f32_forward, kSilu, true, DType::f32, false)->Apply(shapes);
BENCHMARK_CAPTURE(activation, swiglu_f32_backward, kSilu, true, DType::f32, true)->Apply(shapes);
BENCHMARK_CAPTURE(activation, gelu_bf16_forward, kGelu, false, DType::bf16, false)->Apply(shapes);
BENCHMARK_CAPTURE(activation, gelu_bf16_backward, kGelu, false, DType::bf16, true)->Apply(shapes);

}  // namespace
}  // namespace viaduct
