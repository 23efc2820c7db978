// Rotary position embedding per dtype.

#include <cmath>

#include "op_benchmark.h"

namespace viaduct {
namespace {

void rotate(benchmark::State& state, DType dtype) {
  OpBench bench;
  const int64_t S = 1024, T = state.range(0), N = state.range(1), D = state.range(2);
  const Tensor x = bench.random(dtype, {T, N, D}, 1), positions = bench.empty(DType::i32, {T});
  const Tensor cosines = bench.empty(DType::f32, {S, D / 2});
  const Tensor sines = bench.empty(DType::f32, {S, D / 2});
  for (int64_t t = 0; t < T; ++t) positions.data<int32_t>()[t] = static_cast<int32_t>(t % S);
  for (int64_t i = 0; i < S * D / 2; ++i) {
    const double frequency = std::pow(10000, -2.0 * static_cast<double>(i % (D / 2)) / D);
    const double angle = static_cast<double>(i / (D / 2)) * frequency;
    cosines.data<float>()[i] = static_cast<float>(std::cos(angle));
    sines.data<float>()[i] = static_cast<float>(std::sin(angle));
  }
  run_op(state, bench, [&] { rotary(bench.context, {x, positions, cosines, sines}); });
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"T", "N", "D"})->Args({4096, 12, 64})->Args({4096, 4, 64});
  benchmark->Args({2048, 32, 128});
}

BENCHMARK_CAPTURE(rotate, bf16, DType::bf16)->Apply(shapes);
BENCHMARK_CAPTURE(rotate, f32, DType::f32)->Apply(shapes);

}  // namespace
}  // namespace viaduct
