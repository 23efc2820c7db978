#pragma once
// Shared code of the benchmarks: a device with the ops of this machine, random operands, and the
// loop that counts FLOPs and bytes by the op's cost.

#include <benchmark/benchmark.h>

#include <memory>

#include "device/device.h"
#include "ops/cpu/cpu_ops.h"

namespace viaduct {

/// Ops on one thread, so that CPU time counts and other work on the machine disturbs little; more
/// threads need real time.
struct OpBench {
  std::unique_ptr<Device> device;
  OpTable ops;
  OpContext context{*device, ops};

  explicit OpBench(int threads = 1)
      : device(make_cpu_device(threads)), ops(cpu_ops(best_cpu_isa())) {}

  Tensor empty(DType dtype, const Shape& shape) const {
    return context.allocate(dtype, shape, MemoryTag::activations);
  }
  /// Normal numbers; never zeros, which run faster than data.
  Tensor random(DType dtype, const Shape& shape, uint64_t stream, double mean = 0,
                double standard_deviation = 1) {
    const Tensor x = empty(dtype, shape);
    const Tensor flat = x.view({x.elements()});
    random_normal(context, {flat, mean, standard_deviation, {1, stream}, 0, 0, x.elements()});
    return x;
  }
  /// i32 numbers in [0, limit), every residue equally often, in an irregular order.
  Tensor integers(int64_t count, int64_t limit) const {
    const Tensor x = empty(DType::i32, {count});
    for (int64_t i = 0; i < count; ++i)
      x.data<int32_t>()[i] = static_cast<int32_t>(i * 2654435761 % limit);
    return x;
  }
  /// The cost of one call of `op` by its own count.
  template <class Op>
  Cost cost(Op&& op) {
    StepRecord record;
    device->set_record(&record);
    op();
    device->set_record(nullptr);
    return record.total_cost();
  }
};

/// FLOP/s and bytes/s of `cost` an iteration.
inline void count(benchmark::State& state, const Cost& cost) {
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  if (cost.total_flops() > 0)
    state.counters["FLOP/s"] = benchmark::Counter(cost.total_flops(), rate);
  state.counters["bytes/s"] =
      benchmark::Counter(static_cast<double>(cost.bytes_read + cost.bytes_written), rate);
}

/// Runs `op` again and again, with the counters of its cost.
template <class Op>
void run_op(benchmark::State& state, OpBench& bench, Op&& op) {
  const Cost cost = bench.cost(op);
  for ([[maybe_unused]] auto _ : state) op();
  count(state, cost);
}

}  // namespace viaduct
