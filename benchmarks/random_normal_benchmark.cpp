// Normal random numbers, as for initial weights.

#include "op_benchmark.h"

namespace viaduct {
namespace {

void normal(benchmark::State& state, DType dtype, bool transposed) {
  OpBench bench;
  const int64_t rows = state.range(0), columns = state.range(1);
  const Tensor out = bench.empty(dtype, {rows, columns});
  run_op(state, bench, [&] {
    random_normal(bench.context,
                  {out, 0, 0.02, {1, 2}, 0, 0, transposed ? rows : columns, transposed});
  });
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"rows", "columns"})->Args({768, 768})->Args({3072, 768});
}

BENCHMARK_CAPTURE(normal, f32, DType::f32, false)->Apply(shapes);
BENCHMARK_CAPTURE(normal, bf16, DType::bf16, false)->Apply(shapes);
BENCHMARK_CAPTURE(normal, f32_transposed, DType::f32, true)->Apply(shapes);

}  // namespace
}  // namespace viaduct
