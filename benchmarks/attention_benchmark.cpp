// Attention per instruction set, shape and dtype, on one thread: CPU time, which other work on the
// machine affects little. `viaduct bench attention` measures all threads next to the peak.

#include <benchmark/benchmark.h>

#include <cmath>

#include "device/device.h"
#include "ops/cpu/cpu_ops.h"

namespace viaduct {
namespace {

constexpr int64_t kHeads = 4;

void attention(benchmark::State& state, CpuIsa isa, DType dtype, bool backward) {
  const int64_t S = state.range(0), D = state.range(1), kv_heads = state.range(2);
  if (!cpu_supports(isa)) return state.SkipWithError("not on this machine");
  const auto device = make_cpu_device(1);
  const OpTable ops = cpu_ops(isa);
  OpContext context{*device, ops};
  const auto random = [&](DType type, int64_t heads, uint64_t stream) {
    const Tensor x = context.allocate(type, {S, heads, D}, MemoryTag::activations);
    random_normal(context, {x.view({S, heads * D}), 0, 1, {1, stream}, 0, 0, heads * D});
    return x;
  };
  AttentionProblem problem;
  problem.q_offsets = problem.kv_offsets = host_tensor(DType::i32, {2});
  problem.q_offsets.data<int32_t>()[1] = static_cast<int32_t>(S);
  problem.scale = 1 / std::sqrt(static_cast<double>(D));
  problem.max_queries = problem.max_keys = S;
  const Tensor q = random(dtype, kHeads, 1), k = random(dtype, kv_heads, 2);
  const Tensor v = random(dtype, kv_heads, 3), out = random(dtype, kHeads, 4);
  const Tensor d_out = random(dtype, kHeads, 5), dq = random(DType::f32, kHeads, 6);
  const Tensor dk = random(DType::f32, kv_heads, 7), dv = random(DType::f32, kv_heads, 8);
  const Tensor lse = context.allocate(DType::f32, {kHeads, S}, MemoryTag::activations);
  const Tensor delta = context.allocate(DType::f32, {kHeads, S}, MemoryTag::activations);
  attention_forward(context, {problem, q, k, v, out, lse});
  attention_delta(context, {out, d_out, delta});
  for ([[maybe_unused]] auto _ : state) {
    if (backward) {
      attention_backward(context, {problem, q, k, v, d_out, lse, delta, dq, dk, dv});
    } else {
      attention_forward(context, {problem, q, k, v, out, lse});
    }
  }
  const double pairs = 0.5 * static_cast<double>(S * (S + 1) * kHeads);
  state.counters["FLOP/s"] =
      benchmark::Counter(pairs * 2 * static_cast<double>(D) * (backward ? 5 : 2),
                         benchmark::Counter::kIsIterationInvariantRate);
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"S", "D", "K"})->ArgsProduct({{256, 1024, 4096}, {64, 128}, {4, 1}});
}

BENCHMARK_CAPTURE(attention, avx2_bf16_forward, CpuIsa::avx2, DType::bf16, false)->Apply(shapes);
BENCHMARK_CAPTURE(attention, avx2_bf16_backward, CpuIsa::avx2, DType::bf16, true)->Apply(shapes);
BENCHMARK_CAPTURE(attention, avx512_f32_forward, CpuIsa::avx512, DType::f32, false)->Apply(shapes);
BENCHMARK_CAPTURE(attention, avx512_f32_backward, CpuIsa::avx512, DType::f32, true)->Apply(shapes);
BENCHMARK_CAPTURE(attention, avx512_bf16_forward, CpuIsa::avx512, DType::bf16, false)
    ->Apply(shapes);
BENCHMARK_CAPTURE(attention, avx512_bf16_backward, CpuIsa::avx512, DType::bf16, true)
    ->Apply(shapes);

}  // namespace
}  // namespace viaduct
