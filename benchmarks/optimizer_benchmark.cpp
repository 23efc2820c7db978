// AdamW and the sum of squared gradients on all threads, each beside a copy of the same number of
// bytes in turn: `of_copy` is the op's rate over the copy's; other work on the machine slows both
// equally.

#include <algorithm>
#include <chrono>
#include <cstring>

#include "op_benchmark.h"
#include "ops/step_scalars.h"

namespace viaduct {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// memcpy between two buffers by all threads of the pool; `bytes` counts bytes read and written.
class StreamCopy {
 public:
  StreamCopy(OpBench& bench, int64_t bytes)
      : bench_(bench),
        from_(bench.random(DType::f32, {bytes / 8}, 90)),
        to_(bench.random(DType::f32, {bytes / 8}, 91)) {}

  double seconds() const {
    constexpr int64_t kPiece = int64_t{1} << 20;
    const int64_t bytes = from_.bytes();
    const double begin = now();
    bench_.device->pool().run((bytes + kPiece - 1) / kPiece, [&](int64_t piece, int) {
      const int64_t at = piece * kPiece;
      std::memcpy(static_cast<char*>(to_.raw()) + at, static_cast<const char*>(from_.raw()) + at,
                  static_cast<size_t>(std::min(kPiece, bytes - at)));
    });
    return now() - begin;
  }

 private:
  OpBench& bench_;
  Tensor from_, to_;
};

template <class Op>
void beside_copy(benchmark::State& state, OpBench& bench, Op&& op) {
  const Cost cost = bench.cost(op);
  const StreamCopy copy(bench, cost.bytes_read + cost.bytes_written);
  double op_seconds = 0, copy_seconds = 0;
  copy.seconds();
  for ([[maybe_unused]] auto _ : state) {
    copy_seconds += copy.seconds();
    const double begin = now();
    op();
    const double seconds = now() - begin;
    op_seconds += seconds;
    state.SetIterationTime(seconds);
  }
  count(state, cost);
  state.counters["of_copy"] = copy_seconds / op_seconds;
}

/// The scalars of a step that updates.
Tensor step_scalars(OpBench& bench) {
  const Tensor scalars = bench.empty(DType::f64, {kStepScalars});
  std::fill_n(scalars.data<double>(), kStepScalars, 0.0);
  const auto set = [&](StepScalar slot, double value) {
    scalars.data<double>()[static_cast<int64_t>(slot)] = value;
  };
  set(StepScalar::learning_rate, 1e-3);
  set(StepScalar::weight_decay_factor, 1);
  set(StepScalar::bias_correction1, 0.1);
  set(StepScalar::bias_correction2, 0.05);
  set(StepScalar::clip_factor, 0.5);
  set(StepScalar::gradient_factor, 1);
  return scalars;
}

void adamw_update(benchmark::State& state, bool writes_bf16) {
  OpBench bench(static_cast<int>(state.range(1)));
  const Shape shape{state.range(0)};
  const Tensor master = bench.random(DType::f32, shape, 1);
  const Tensor gradient = bench.random(DType::f32, shape, 2);
  const Tensor first = bench.random(DType::f32, shape, 3, 0, 0.1);
  const Tensor second = bench.random(DType::f32, shape, 4, 1, 0.1);
  const Tensor weight = writes_bf16 ? bench.random(DType::bf16, shape, 5) : Tensor();
  const Tensor scalars = step_scalars(bench);
  beside_copy(state, bench, [&] {
    adamw(bench.context, {master, gradient, first, second, weight, scalars, 0.9, 0.95, 1e-8, 0.1});
  });
}

void squared_norm(benchmark::State& state) {
  OpBench bench(static_cast<int>(state.range(1)));
  const Tensor gradient = bench.random(DType::f32, {state.range(0)}, 1);
  const Tensor sum = bench.empty(DType::f64, {kReproducibleSumSize});
  std::fill_n(sum.data<double>(), kReproducibleSumSize, 0.0);
  beside_copy(state, bench, [&] { reproducible_sum(bench.context, {gradient, {}, true, sum}); });
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"elements", "threads"})->UseManualTime();
  benchmark->ArgsProduct({{int64_t{1} << 20, int64_t{1} << 25}, {1, default_pool_threads(1)}});
}

BENCHMARK_CAPTURE(adamw_update, f32, false)->Apply(sizes);
BENCHMARK_CAPTURE(adamw_update, bf16_weights, true)->Apply(sizes);
BENCHMARK(squared_norm)->Apply(sizes);

}  // namespace
}  // namespace viaduct
