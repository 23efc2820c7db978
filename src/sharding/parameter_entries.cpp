#include "sharding/parameter_entries.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "sharding/frozen_weights.h"
#include "sharding/stored_codes.h"
#include "tensor/state_formats.h"

namespace viaduct {
namespace {

/// Number of elements that closes a bucket.
int64_t bucket_elements(const StoreSettings& settings, const std::vector<LayoutParameter>& sizes) {
  if (settings.num_buckets == 0) return settings.bucket_elements;
  int64_t elements = 0;
  for (const LayoutParameter& size : sizes) elements += size.elements;
  return (elements + settings.num_buckets - 1) / settings.num_buckets;
}

/// Whether one of the chunks from `begin` on uses the parameter.
bool used_again(const Parameter& parameter, const std::vector<std::vector<ParameterUse>>& chunks,
                size_t begin) {
  for (size_t chunk = begin; chunk < chunks.size(); ++chunk) {
    for (const ParameterUse& use : chunks[chunk]) {
      if (use.parameter->path == parameter.path) return true;
    }
  }
  return false;
}

}  // namespace

ParameterEntries::ParameterEntries(Device& device, const PrecisionRecipe& recipe,
                                   const std::vector<std::vector<ParameterUse>>& chunks,
                                   const StoreSettings& settings, const ParallelGroups& groups,
                                   OffloadedBlocks* blocks)
    : device_(device),
      recipe_(recipe),
      settings_(settings),
      groups_(groups),
      blocks_(blocks),
      alone_(make_self_communicator("frozen parameters")) {
  for (size_t i = 0; i < chunks.size(); ++i) add_chunk(chunks);
  list_buckets();
}

const ParameterEntry& ParameterEntries::at(const Parameter& parameter) const {
  const auto place = places_.find(&parameter);
  VIADUCT_CHECK(ShapeError, place, "parameter store: {} does not live here", parameter.path);
  return entries_[*place];
}

ParameterEntry& ParameterEntries::at(const Parameter& parameter) {
  return const_cast<ParameterEntry&>(std::as_const(*this).at(parameter));
}

size_t ParameterEntries::buckets_of_first(size_t chunks) const {
  const auto among = [&](const ParameterBucket& bucket) { return bucket.chunk < chunks; };
  return static_cast<size_t>(std::count_if(buckets_.begin(), buckets_.end(), among));
}

bool ParameterEntries::in_use(const ParameterBucket& bucket) const {
  return std::ranges::any_of(
      bucket.parameters, [&](const Parameter* parameter) { return at(*parameter).acquired > 0; });
}

bool ParameterEntries::stores_codes(const Parameter& parameter) const {
  return recipe_.stores_codes && can_store_codes(recipe_.products) && settings_.with_masters &&
         parameter.quantized;
}

bool ParameterEntries::passes_gradients(const Parameter& parameter) const {
  return recipe_.stores_codes && recipe_.products.scaling == Scaling::mx &&
         settings_.with_masters && parameter.quantized;
}

BufferFormats ParameterEntries::formats_of(const Parameter& parameter) const {
  const DType weight = parameter.format.value_or(recipe_.weight);
  const bool codes = stores_codes(parameter), staged = passes_gradients(parameter);
  return {
      .weight = parameter.stored ? stored_dtype(*parameter.stored)
                : codes          ? recipe_.products.forward
                                 : weight,
      .gradient = settings_.fp32_gradients ? recipe_.main_gradient : weight,
      // Remainders are the low halves of 16-bit weights. Codes are not such weights, and in the
      // memory of gradients they exist only for a short time.
      .master = (codes || staged) && recipe_.master == DType::i16 ? DType::f32 : recipe_.master,
      .message = settings_.fp32_messages.value_or(settings_.fp32_gradients) ? recipe_.main_gradient
                                                                            : weight,
      .with_gradients = settings_.with_gradients && parameter.trained,
      // A parameter in its own format is its own master where the format is wide enough.
      .master_is_weight = weight == recipe_.weight ? recipe_.master_is_weight()
                                                   : weight == DType::f32 || weight == DType::f64,
      .with_masters = settings_.with_masters && parameter.trained,
      .masters_by_run = settings_.offload_fraction > 0,
      .shard_weights = settings_.shard_weights,
      .shard_gradients = settings_.shard_gradients,
      .offload_shards = settings_.offload_shards,
      .weights_elsewhere = parameter.stored == BaseFormat::blocks,
      .weights_in_gradients = staged};
}

void ParameterEntries::add_chunk(const std::vector<std::vector<ParameterUse>>& chunks) {
  const size_t chunk = chunks_++;
  std::vector<const Parameter*> parameters;
  std::vector<int> layers;
  for (const auto& [parameter, layer] : chunks[chunk]) {
    const auto [place, first] = places_.add(parameter);
    if (first) entries_.push_back({.parameter = parameter, .place = place});
    ++entries_[place].uses;
    if (first) {
      parameters.push_back(parameter);
      layers.push_back(used_again(*parameter, chunks, chunk + 1) ? -1 : layer);
      continue;
    }
    // A parameter that an earlier chunk also uses lives in that chunk's buffers.
    const auto known = std::find(parameters.begin(), parameters.end(), parameter);
    if (known == parameters.end()) continue;
    if (int& one = layers[static_cast<size_t>(known - parameters.begin())]; one != layer) one = -1;
  }
  for (size_t i = 0; i < parameters.size(); ++i) at(*parameters[i]).layer = layers[i];
  parameters_.insert(parameters_.end(), parameters.begin(), parameters.end());
  // One buffer for each grid and format, in the order of their first parameters.
  while (!parameters.empty()) {
    const Parameter& first = *parameters.front();
    std::vector<const Parameter*> alike, others;
    std::vector<int> layers_alike, layers_of_others;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Parameter& p = *parameters[i];
      const bool fits = p.grid == first.grid && p.trained == first.trained &&
                        formats_of(p).weight == formats_of(first).weight &&
                        passes_gradients(p) == passes_gradients(first);
      (fits ? alike : others).push_back(&p);
      (fits ? layers_alike : layers_of_others).push_back(layers[i]);
    }
    add_buffer(chunk, std::move(alike), layers_alike);
    parameters = std::move(others);
    layers = std::move(layers_of_others);
  }
}

void ParameterEntries::add_buffer(size_t chunk, std::vector<const Parameter*> parameters,
                                  const std::vector<int>& layers) {
  const bool trained = parameters.front()->trained;
  // Frozen weights are shards where weights are, and whole on each rank else.
  ShardingGroups groups = sharding_groups(groups_, parameters.front()->grid);
  if (!trained) {
    const auto shards = settings_.shard_weights ? groups.shards : alone_;
    groups = {shards, alone_, shards};
  }
  std::vector<LayoutParameter> sizes;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = *parameters[i];
    // A parameter that several layers use is gathered for each of them, as its own unit.
    const bool alone = !p.holders.empty() || (settings_.shard_gradients && layers[i] < 0);
    sizes.push_back({p.shape.elements(), alone, settings_.shard_gradients ? layers[i] : 0});
  }
  LayoutSettings layout;
  layout.shards = settings_.share_state && trained ? groups.ranks->size() : groups.shards->size();
  layout.padded = settings_.distributed_optimizer;
  const BufferFormats formats = formats_of(*parameters.front());
  layout.shard_multiple =
      std::lcm(recipe_.scaled_state() ? kStateGroup : 1, elements_per_value(formats.weight));
  layout.pad_for_bus_bandwidth = settings_.pad_for_bus_bandwidth;
  // Later chunks and stages have time for one message: their backward ends before the first's.
  const bool several = settings_.overlap_grad_reduce && !settings_.gather_with_optimizer_step &&
                       !settings_.shard_gradients;
  if (several && trained && groups_.stage() == 0 && chunk == 0)
    layout.bucket_elements = bucket_elements(settings_, sizes);
  buffers_.emplace_back(device_, chunk, std::move(parameters), make_buffer_layout(sizes, layout),
                        formats, groups, blocks_);
}

void ParameterEntries::list_buckets() {
  std::map<const Parameter*, size_t> order;
  for (size_t i = 0; i < parameters_.size(); ++i) order[parameters_[i]] = i;
  for (size_t b = 0; b < buffers_.size(); ++b) {
    const ParameterBuffer& buffer = buffers_[b];
    const size_t first = buckets_.size();
    for (size_t i = 0; i < buffer.layout().buckets.size(); ++i)
      buckets_.push_back({b, i, buffer.chunk(), parameters_.size()});
    for (size_t i = 0; i < buffer.parameters().size(); ++i) {
      const Parameter* parameter = buffer.parameters()[i];
      ParameterBucket& place = buckets_[first + buffer.layout().parameters[i].bucket];
      place.parameters.push_back(parameter);
      place.first_use = std::min(place.first_use, order[parameter]);
      ParameterEntry& e = at(*parameter);
      e.buffer = b, e.index = i;
      e.weight = buffer.weight(i);
      e.gradient = buffer.gradient(i);
    }
  }
  // Chunks have their parameters one after the other, so this puts the last chunk first.
  std::sort(
      buckets_.begin(), buckets_.end(),
      [](const ParameterBucket& a, const ParameterBucket& b) { return a.first_use > b.first_use; });
  for (size_t i = 0; i < buckets_.size(); ++i)
    for (const Parameter* parameter : buckets_[i].parameters) at(*parameter).bucket = i;
}

}  // namespace viaduct
