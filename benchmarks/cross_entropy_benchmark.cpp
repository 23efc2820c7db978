// Softmax cross entropy over a chunk of logits, forward and backward.

#include "op_benchmark.h"

namespace viaduct {
namespace {

void cross_entropy(benchmark::State& state, bool backward, DType out_dtype) {
  OpBench bench;
  const int64_t t = state.range(0), V = state.range(1);
  const Tensor logits = bench.random(DType::f32, {t, V}, 1), targets = bench.integers(t, V);
  const Tensor lse = bench.empty(DType::f64, {t}), target_logit = bench.empty(DType::f64, {t});
  const CrossEntropyForwardArgs forward_args{logits, targets, lse, target_logit, V};
  cross_entropy_forward(bench.context, forward_args);
  if (!backward) {
    return run_op(state, bench, [&] { cross_entropy_forward(bench.context, forward_args); });
  }
  const Tensor weight = bench.random(DType::f32, {t}, 2, 1, 0.1);
  const Tensor factor = bench.empty(DType::f64, {1}), out = bench.empty(out_dtype, {t, V});
  fill(bench.context, {factor, 1.0 / static_cast<double>(t)});
  run_op(state, bench, [&] {
    cross_entropy_backward(bench.context, {logits, targets, lse, weight, factor, out, V});
  });
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"t", "V"})->Args({4096, 65})->Args({4096, 256})->Args({128, 32000});
  benchmark->Args({128, 50304});
}

BENCHMARK_CAPTURE(cross_entropy, forward, false, DType::f32)->Apply(shapes);
BENCHMARK_CAPTURE(cross_entropy, backward_f32, true, DType::f32)->Apply(shapes);
BENCHMARK_CAPTURE(cross_entropy, backward_bf16, true, DType::bf16)->Apply(shapes);

}  // namespace
}  // namespace viaduct
