#include "optim/optimizer.h"

#include <algorithm>
#include <optional>

#include "ops/elementwise.h"
#include "ops/load_bias.h"
#include "ops/optimizer_state.h"
#include "optim/bucket_walk.h"

namespace viaduct {

size_t Optimizer::add_state(OpContext& context, std::string prefix, DType format, HasState has,
                            bool lifts_zeros) {
  OptimizerState state{std::move(prefix), {}, has, lifts_zeros};
  for (const RunBucket& bucket : store_.run_buckets()) add_bucket(context, format, bucket, state);
  states_.push_back(std::move(state));
  return states_.size() - 1;
}

void Optimizer::add_bucket(OpContext& context, DType format, const RunBucket& bucket,
                           OptimizerState& state) {
  const bool scaled = has_state_scales(format);
  std::vector<Tensor> places;  // values and scales, alternating, of offloaded states
  std::optional<size_t> block;
  std::vector<std::pair<DType, int64_t>> sizes;
  const auto has = [&](size_t i) {
    const Parameter& parameter = *run(i).parameter;
    return !parameter.load_bias_rate && (state.has == nullptr || state.has(parameter));
  };
  for (size_t i = bucket.begin; i < bucket.end; ++i) {
    if (!has(i)) continue;
    sizes.emplace_back(format, run(i).range.size());
    if (scaled) sizes.emplace_back(DType::f32, state_groups(run(i).range.size()));
  }
  if (bucket.offloaded && !sizes.empty()) {
    places = store_.offloaded()->add(MemoryTag::moments, sizes);
    block = store_.offloaded()->block_of(places.front());
    store_.offloaded()->begin(*block);
  } else {
    for (const auto& [dtype, elements] : sizes)
      places.push_back(context.allocate(dtype, {elements}, MemoryTag::moments));
  }
  for (size_t i = bucket.begin, place = 0; i < bucket.end; ++i) {
    StateValues& values = state.runs.emplace_back();
    if (!has(i)) continue;
    values.values = places[place++];
    if (scaled) {
      values.scales = places[place++];
      store_state(context, {{}, here(values.values), here(values.scales), {}});
    } else {
      fill(context, {here(values.values), 0});
    }
  }
  if (!block) return;
  store_.offloaded()->leave(*block, true);
  store_.offloaded()->settle(*block);
}

Tensor Optimizer::here(const Tensor& tensor) const {
  return store_.offloaded() == nullptr ? tensor : store_.offloaded()->present(tensor);
}

void Optimizer::walk(const ChunkRuns& chunk, FunctionRef<RunUse(size_t i)> use,
                     FunctionRef<void(const ChunkRuns& runs)> f) {
  std::vector<BucketUses> buckets;
  for (const RunBucket& bucket : store_.run_buckets()) {
    if (bucket.begin < chunk.begin || bucket.end > chunk.end) continue;
    BucketUses& uses = buckets.emplace_back();
    uses.bucket = bucket;
    const auto add = [&](const Tensor& tensor, bool changes) {
      const auto block = store_.offloaded()->block_of(tensor);
      const auto known = std::ranges::find_if(
          uses.blocks, [&](const BlockUse& other) { return other.first == block; });
      if (block && known == uses.blocks.end()) uses.blocks.emplace_back(*block, changes);
    };
    for (size_t i = bucket.begin; i < bucket.end && store_.offloaded() != nullptr; ++i) {
      const RunUse of = use(i);
      if (of.master) add(run(i).master, true), add(run(i).weight, true);
      if (of.gradient) add(run(i).gradient, false);
      if (!of.states) continue;
      for (const OptimizerState& state : states_)
        if (!state.runs.empty() && state.runs[i].values) add(state.runs[i].values, true);
    }
  }
  walk_buckets(store_.offloaded(), buckets, store_.overlaps_offload(),
               [&](const RunBucket& bucket) {
                 f({chunk.chunk, bucket.begin, bucket.end});
               });
}

void Optimizer::update_chunk(OpContext& context, const Tensor& scalars, const ChunkRuns& chunk) {
  walk(
      chunk,
      [](size_t) {
        return RunUse{true, true, true};
      },
      [&](const ChunkRuns& runs) { update_runs(context, scalars, runs); });
}

void Optimizer::move_load_biases(OpContext& context, const Tensor& scalars, const ChunkRuns& chunk,
                                 const LoadBiases& biases) {
  const auto moves = [&](size_t i) { return run(i).parameter->load_bias_rate.has_value(); };
  bool any = false;
  for (size_t i = chunk.begin; i < chunk.end; ++i) any = any || moves(i);
  if (!any) return;
  const auto use = [&](size_t i) {
    return moves(i) ? RunUse{.master = true, .gradient = true} : RunUse();
  };
  walk(chunk, use, [&](const ChunkRuns& runs) {
    for (size_t i = runs.begin; i < runs.end; ++i) {
      if (!moves(i)) continue;
      MoveLoadBiasArgs args{here(run(i).master), here(run(i).gradient), written_weight(i), scalars,
                            *run(i).parameter->load_bias_rate};
      const auto found = std::find_if(biases.begin(), biases.end(), [&](const auto& bias) {
        return bias.first == run(i).parameter;
      });
      if (found != biases.end()) {
        args.error = found->second.slice(0, run(i).range.begin, run(i).range.size());
        args.set = true;
      }
      move_load_bias(context, args);
    }
  });
}

Tensor Optimizer::written_weight(size_t i) const {
  const bool apart =
      run(i).weight.storage() != run(i).master.storage() && !run(i).store_writes_weight;
  return apart ? here(run(i).weight) : Tensor();
}

StepScalar Optimizer::learning_rate(size_t i, bool decoupled) const {
  const Parameter& parameter = *run(i).parameter;
  if (decoupled && parameter.decoupled_rate) return StepScalar::decoupled_learning_rate;
  return StepScalar::learning_rate;
}

void Optimizer::step(OpContext& context, const Tensor& scalars, const LoadBiases& biases) {
  store_.advance_generation();
  size_t begin = 0;
  for (size_t chunk = 0; chunk < store_.chunks(); ++chunk) {
    const size_t end = store_.runs_end(chunk);
    update_chunk(context, scalars, {chunk, begin, end});
    move_load_biases(context, scalars, {chunk, begin, end}, biases);
    store_.chunk_written(chunk);
    begin = end;
  }
  store_.weights_written();
}

}  // namespace viaduct
