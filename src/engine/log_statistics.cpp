#include "engine/log_statistics.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise.h"
#include "sharding/master_values.h"
#include "sharding/reproducible_all_reduce.h"
#include "sharding/run_cursor.h"
#include "sharding/shard_run.h"

namespace viaduct {

double weight_norm(Engine& engine) {
  OpContext context = engine.context(false, false).ops;
  const Tensor state = context.allocate(DType::f64, {kReproducibleSumSize}, MemoryTag::workspace);
  const Tensor sum = context.allocate(DType::f64, {1}, MemoryTag::workspace);
  fill(context, {state, 0});
  std::vector<Tensor> counted;
  RunCursor cursor(engine.store().offloaded(), BlockCursor::Access::read);
  const bool one_by_one = engine.store().offloaded() != nullptr;
  for (const ShardRun& run : engine.store().shard_runs()) {
    const Tensor master = master_values(context, cursor.at(run));
    for (const Range& range : counted_ranges(run))
      counted.push_back(master.slice(0, range.begin - run.range.begin, range.size()));
    if (!run.master_state().coded() && !one_by_one) continue;
    reproducible_sums(context, {std::move(counted), true, state});  // one copy at a time
    counted.clear();
  }
  reproducible_sums(context, {std::move(counted), true, state});
  reproducible_all_reduce(context, engine.store().ranks_of_all_runs(), state);
  sum_value(context, {state, sum});
  return std::sqrt(host_read(engine.device(), sum, "weight norm", 0));
}

int64_t zero_gradients(Engine& engine) {
  double zeros = 0;
  RunCursor cursor(engine.store().offloaded(), BlockCursor::Access::read);
  for (const ShardRun& run : engine.store().shard_runs()) {
    if (run.parameter->load_bias_rate) continue;  // it has load errors instead of a gradient
    const Tensor gradient = cursor.gradient(run);
    for (const Range& range : counted_ranges(run)) {
      const Tensor counted = gradient.slice(0, range.begin - run.range.begin, range.size());
      const Tensor host = host_tensor(counted.dtype(), counted.shape());
      engine.device().copy_to_host(counted, host);
      dispatch_floating(host.dtype(), [&](auto zero) {
        const auto* values = host.data<decltype(zero)>();
        zeros += static_cast<double>(std::count_if(
            values, values + host.elements(), [](auto v) { return static_cast<float>(v) == 0; }));
      });
    }
  }
  const bool counted = engine.store().copies_of_runs().rank() == 0;
  return static_cast<int64_t>(engine.groups().world().host().sum(zeros, counted));
}

}  // namespace viaduct
