// The parameter store where masters and optimizer states live in a second memory.

#include <algorithm>

#include "sharding/parameter_store.h"

namespace viaduct {

void ParameterStore::list_run_buckets() {
  std::vector<RunSize> sizes;
  for (size_t chunk = 0, i = 0; chunk < runs_end_.size(); ++chunk) {
    for (; i < runs_end_[chunk]; ++i) {
      const Parameter& parameter = *runs_[i].parameter;
      // Blocks of a unit are fetched and stored with the unit.
      sizes.push_back(
          {runs_[i].range.size(), chunk, settings_.offload_shards ? entry(parameter).bucket : 0});
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
      const BufferFormats& formats = buffers_[entry(*run.parameter).buffer].formats();
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

}  // namespace viaduct
