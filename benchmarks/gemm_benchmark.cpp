// Matrix products per form, shape and dtype, on one thread: CPU time, which other work on the
// machine affects little. `viaduct bench gemm` measures all threads next to the peak.

#include <benchmark/benchmark.h>

#include "device/device.h"
#include "op_benchmark.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/grouped_gemm.h"

namespace viaduct {
namespace {

void product(benchmark::State& state, GemmForm form, DType dtype) {
  const int64_t M = state.range(0), N = state.range(1), K = state.range(2);
  const auto device = make_cpu_device(1);
  const OpTable ops = cpu_ops(best_cpu_isa());
  OpContext context{*device, ops};
  const auto random = [&](DType type, int64_t rows, int64_t columns, uint64_t stream) {
    const Tensor x = context.allocate(type, {rows, columns}, MemoryTag::activations);
    random_normal(context, {x, 0, 1, {1, stream}, 0, 0, columns});
    return x;
  };
  const bool weight_gradient = form == GemmForm::weight_gradient;
  GemmArgs args;
  args.form = form;
  args.a = random(dtype, M, form == GemmForm::forward ? K : N, 1);
  args.b = weight_gradient ? random(dtype, M, K, 2) : random(dtype, N, K, 2);
  args.c = weight_gradient ? random(DType::f32, N, K, 3)
                           : random(dtype, M, form == GemmForm::forward ? N : K, 3);
  if (weight_gradient) args.mode = WriteMode::accumulate;
  for ([[maybe_unused]] auto _ : state) gemm(context, args);
  state.counters["FLOP/s"] = benchmark::Counter(2.0 * static_cast<double>(M * N * K),
                                                benchmark::Counter::kIsIterationInvariantRate);
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"M", "N", "K"});
  benchmark->Args({1, 768, 768})->Args({128, 64, 64})->Args({4096, 65, 384});
  benchmark->Args({4096, 384, 384})->Args({4096, 1024, 384})->Args({1024, 768, 3072});
}

BENCHMARK_CAPTURE(product, f32_forward, GemmForm::forward, DType::f32)->Apply(shapes);
BENCHMARK_CAPTURE(product, f32_data, GemmForm::data_gradient, DType::f32)->Apply(shapes);
BENCHMARK_CAPTURE(product, f32_weight, GemmForm::weight_gradient, DType::f32)->Apply(shapes);
BENCHMARK_CAPTURE(product, bf16_forward, GemmForm::forward, DType::bf16)->Apply(shapes);
BENCHMARK_CAPTURE(product, bf16_data, GemmForm::data_gradient, DType::bf16)->Apply(shapes);
BENCHMARK_CAPTURE(product, bf16_weight, GemmForm::weight_gradient, DType::bf16)->Apply(shapes);

/// Products of experts, `rows` rows each, on so many threads.
void experts(benchmark::State& state, GemmForm form, DType dtype) {
  const int64_t E = state.range(0), rows = state.range(1), N = state.range(2), K = state.range(3);
  OpBench bench(static_cast<int>(state.range(4)));
  const bool weight_gradient = form == GemmForm::weight_gradient;
  GroupedGemmArgs args{form};
  args.a = bench.random(dtype, {E * rows, form == GemmForm::forward ? K : N}, 1);
  args.b = bench.random(dtype, {E * (weight_gradient ? rows : N), K}, 2);
  args.c = weight_gradient ? bench.empty(DType::f32, {E * N, K})
                           : bench.empty(dtype, {E * rows, form == GemmForm::forward ? N : K});
  args.offsets = bench.empty(DType::i32, {E + 1});
  for (int64_t e = 0; e <= E; ++e) args.offsets.data<int32_t>()[e] = static_cast<int32_t>(e * rows);
  run_op(state, bench, [&] { grouped_gemm(bench.context, args); });
}

// Those of configs/bench: mixtral_20m, deepseek_18m; fewer rows of more experts.
void expert_shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"E", "rows", "N", "K", "threads"})->UseRealTime();
  for (const int threads : {1, 2}) {
    benchmark->Args({8, 1024, 1024, 256, threads})->Args({8, 1024, 256, 512, threads});
    benchmark->Args({32, 512, 256, 256, threads})->Args({32, 512, 256, 128, threads});
    benchmark->Args({64, 64, 256, 256, threads});
  }
}

BENCHMARK_CAPTURE(experts, f32_forward, GemmForm::forward, DType::f32)->Apply(expert_shapes);
BENCHMARK_CAPTURE(experts, f32_data, GemmForm::data_gradient, DType::f32)->Apply(expert_shapes);
BENCHMARK_CAPTURE(experts, f32_weight, GemmForm::weight_gradient, DType::f32)->Apply(expert_shapes);
BENCHMARK_CAPTURE(experts, bf16_forward, GemmForm::forward, DType::bf16)->Apply(expert_shapes);
BENCHMARK_CAPTURE(experts, bf16_data, GemmForm::data_gradient, DType::bf16)->Apply(expert_shapes);
BENCHMARK_CAPTURE(experts, bf16_weight, GemmForm::weight_gradient, DType::bf16)
    ->Apply(expert_shapes);

}  // namespace
}  // namespace viaduct
