// Elementwise ops per dtype: add, copy (conversion, transposition), scale, fill, dropout.

#include "op_benchmark.h"

namespace viaduct {
namespace {

constexpr int64_t kRows = 4096;

void sum(benchmark::State& state, DType dtype) {
  OpBench bench;
  const Shape shape{kRows, state.range(0)};
  const Tensor a = bench.random(dtype, shape, 1), b = bench.random(dtype, shape, 2);
  const Tensor out = bench.empty(dtype, shape);
  run_op(state, bench, [&] { add(bench.context, {a, b, out}); });
}

void convert(benchmark::State& state, DType from, DType to, WriteMode mode) {
  OpBench bench;
  const Shape shape{kRows, state.range(0)};
  const Tensor x = bench.random(from, shape, 1), out = bench.random(to, shape, 2);
  run_op(state, bench, [&] { copy(bench.context, {x, out, mode}); });
}

void transpose(benchmark::State& state, DType dtype) {
  OpBench bench;
  const int64_t columns = state.range(0);
  const Tensor x = bench.random(dtype, {kRows, columns}, 1);
  const Tensor out = bench.empty(dtype, {columns, kRows});
  run_op(state, bench, [&] { copy(bench.context, {x.transposed(0, 1), out}); });
}

void scaled(benchmark::State& state, DType dtype) {
  OpBench bench;
  const Shape shape{kRows, state.range(0)};
  const Tensor x = bench.random(dtype, shape, 1), out = bench.empty(dtype, shape);
  run_op(state, bench, [&] { scale(bench.context, {x, out, 0.7}); });
}

void filled(benchmark::State& state, DType dtype) {
  OpBench bench;
  const Tensor out = bench.empty(dtype, {kRows, state.range(0)});
  run_op(state, bench, [&] { fill(bench.context, {out, 1.5}); });
}

void dropped(benchmark::State& state, DType dtype) {
  OpBench bench;
  const Shape shape{kRows, state.range(0)};
  const Tensor x = bench.random(dtype, shape, 1), residual = bench.random(dtype, shape, 2);
  const Tensor out = bench.empty(dtype, shape), tokens = bench.empty(DType::i64, {kRows});
  for (int64_t t = 0; t < kRows; ++t) tokens.data<int64_t>()[t] = t;
  run_op(state, bench, [&] { dropout(bench.context, {x, residual, out, 0.1, {1, 2}, tokens}); });
}

void widths(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("columns")->Arg(384)->Arg(768);
}

BENCHMARK_CAPTURE(sum, bf16, DType::bf16)->Apply(widths);
BENCHMARK_CAPTURE(sum, f32, DType::f32)->Apply(widths);
BENCHMARK_CAPTURE(convert, f32_to_bf16, DType::f32, DType::bf16, WriteMode::assign)->Apply(widths);
BENCHMARK_CAPTURE(convert, bf16_to_f32, DType::bf16, DType::f32, WriteMode::assign)->Apply(widths);
BENCHMARK_CAPTURE(convert, bf16_into_f32, DType::bf16, DType::f32, WriteMode::accumulate)
    ->Apply(widths);
BENCHMARK_CAPTURE(transpose, f32, DType::f32)->Apply(widths);
BENCHMARK_CAPTURE(transpose, bf16, DType::bf16)->Apply(widths);
BENCHMARK_CAPTURE(scaled, bf16, DType::bf16)->Apply(widths);
BENCHMARK_CAPTURE(filled, f32, DType::f32)->Apply(widths);
BENCHMARK_CAPTURE(dropped, bf16, DType::bf16)->Apply(widths);

}  // namespace
}  // namespace viaduct
