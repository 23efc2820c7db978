// The runs of a parameter store: what this rank updates, and where masters and optimizer states of
// it live in a second memory.

#include <algorithm>

#include "base/error.h"
#include "ops/elementwise.h"
#include "sharding/parameter_store.h"

namespace viaduct {

void ParameterStore::list_runs() {
  runs_end_.assign(chunks(), 0);
  for (const ParameterBuffer& buffer : entries_.buffers()) {
    for (size_t i = 0; i < buffer.parameters().size(); ++i) {
      const auto ranges = shard_ranges(buffer.layout(), i, buffer.shard());
      if (!ranges) continue;
      const size_t bucket = buffer.layout().parameters[i].bucket;
      const auto run_of = [&](const Tensor& own) { return flat_part(own, ranges->in_shard); };
      if (buffer.parameters()[i]->stored) continue;
      if (!buffer.parameters()[i]->trained) {
        const Tensor weight = run_of(buffer.own_weights(bucket));
        frozen_runs_.push_back({buffer.parameters()[i], ranges->in_parameter, weight, weight});
        continue;
      }
      entries_.at(*buffer.parameters()[i]).run = static_cast<int>(runs_.size());
      runs_.push_back({buffer.parameters()[i], ranges->in_parameter,
                       run_of(buffer.own_weights(bucket)), run_of(buffer.own_masters(bucket)),
                       run_of(buffer.own_gradients(bucket)), Tensor(),
                       entries_.stores_codes(*buffer.parameters()[i]) ||
                           entries_.passes_gradients(*buffer.parameters()[i])});
      run_gradients_.push_back(runs_.back().gradient);
    }
    runs_end_[buffer.chunk()] = runs_.size();
  }
  // A chunk without parameters has no buffer.
  for (size_t chunk = 1; chunk < runs_end_.size(); ++chunk)
    runs_end_[chunk] = std::max(runs_end_[chunk], runs_end_[chunk - 1]);
}

void ParameterStore::list_run_buckets() {
  std::vector<RunSize> sizes;
  for (size_t chunk = 0, i = 0; chunk < runs_end_.size(); ++chunk) {
    for (; i < runs_end_[chunk]; ++i) {
      const Parameter& parameter = *runs_[i].parameter;
      // Blocks of a unit are fetched and stored with the unit.
      sizes.push_back(
          {runs_[i].range.size(), chunk, settings_.offload_shards ? bucket_of(parameter) : 0});
    }
  }
  const int64_t most = settings_.bucket_elements == 0
                           ? settings_.offload_bucket_elements
                           : std::min(settings_.bucket_elements, settings_.offload_bucket_elements);
  run_buckets_ = viaduct::run_buckets(sizes, settings_.offload_fraction,
                                      settings_.offload_shards ? INT64_MAX : most);
}

void ParameterStore::make_masters_of_runs() {
  for (const RunBucket& bucket : run_buckets_) {
    std::vector<std::pair<DType, int64_t>> sizes;
    std::vector<Tensor*> masters;
    for (size_t i = bucket.begin; i < bucket.end; ++i) {
      ShardRun& run = runs_[i];
      const BufferFormats& formats = buffers()[entries_.at(*run.parameter).buffer].formats();
      if (!formats.has_masters()) continue;
      if (formats.masters_by_run) {
        sizes.emplace_back(formats.master, run.range.size());
        masters.push_back(&run.master);
      }
      if (!has_state_scales(formats.master)) continue;
      sizes.emplace_back(DType::f32, state_groups(run.range.size()));
      masters.push_back(&run.master_scales);
    }
    if (sizes.empty()) continue;
    std::vector<Tensor> places;
    if (bucket.offloaded) {
      places = offloaded_->add(MemoryTag::master_weights, sizes);
    } else {
      for (const auto& [format, elements] : sizes)
        places.push_back(device_.allocate(format, {elements}, MemoryTag::master_weights));
    }
    for (size_t i = 0; i < masters.size(); ++i) *masters[i] = places[i];
  }
}

void ParameterStore::narrow_run_gradients() {
  for (size_t i = 0; i < runs_.size(); ++i) runs_[i].gradient = run_gradients_[i];
}

void ParameterStore::widen_run_gradients(OpContext& context) {
  const auto narrow = [&](const ShardRun& run) {
    return run.gradient.dtype() != kernel_gradient_ &&
           run.gradient.dtype() != recipe_.optimizer_gradient;
  };
  int64_t elements = 0;
  for (const ShardRun& run : runs_) elements += narrow(run) ? run.range.size() : 0;
  if (elements == 0) return;
  VIADUCT_CHECK(ShapeError, !settings_.offload_shards,
                "parameter store: gradients in a second memory are read as they are, in {}",
                dtype_name(recipe_.optimizer_gradient));
  const Tensor wide = context.allocate(kernel_gradient_, {elements}, MemoryTag::workspace);
  int64_t begin = 0;
  for (ShardRun& run : runs_) {
    if (!narrow(run)) continue;
    const Tensor place = wide.slice(0, begin, run.range.size());
    copy(context, {run.gradient, place});
    run.gradient = place;
    begin += run.range.size();
  }
}

}  // namespace viaduct
