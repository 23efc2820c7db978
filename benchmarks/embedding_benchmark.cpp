// Look-up of embedding rows and its gradient.

#include "op_benchmark.h"

namespace viaduct {
namespace {

void embedding(benchmark::State& state, DType dtype, bool backward) {
  OpBench bench;
  const int64_t T = state.range(0), V = state.range(1), H = state.range(2);
  const Tensor ids = bench.integers(T, V);
  if (backward) {
    const Tensor d_out = bench.random(dtype, {T, H}, 1);
    const Tensor d_weight = bench.random(DType::f32, {V, H}, 2);
    return run_op(state, bench, [&] { embedding_backward(bench.context, {ids, d_out, d_weight}); });
  }
  const Tensor weight = bench.random(dtype, {V, H}, 1), out = bench.empty(dtype, {T, H});
  run_op(state, bench, [&] { embedding_forward(bench.context, {ids, weight, out}); });
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"T", "V", "H"})->Args({4096, 65, 384})->Args({4096, 32000, 768});
  benchmark->Args({4096, 50304, 768});
}

BENCHMARK_CAPTURE(embedding, bf16_forward, DType::bf16, false)->Apply(shapes);
BENCHMARK_CAPTURE(embedding, bf16_backward, DType::bf16, true)->Apply(shapes);
BENCHMARK_CAPTURE(embedding, f32_forward, DType::f32, false)->Apply(shapes);
BENCHMARK_CAPTURE(embedding, f32_backward, DType::f32, true)->Apply(shapes);

}  // namespace
}  // namespace viaduct
