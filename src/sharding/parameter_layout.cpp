// How a parameter store divides parameters among buffers, buckets and runs, and who reduces and
// gathers them.

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "ops/optimizer.h"
#include "sharding/name_patterns.h"
#include "sharding/parameter_store.h"

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

ParameterStore::ParameterStore(Device& device, const PrecisionRecipe& recipe,
                               const std::vector<std::vector<ParameterUse>>& chunks,
                               const StoreSettings& settings, const ParallelGroups& groups,
                               SecondMemory* second_memory)
    : settings_(settings),
      groups_(groups),
      recipe_(recipe),
      kernel_gradient_(recipe.main_gradient),
      device_(device) {
  check_settings();
  if (second_memory != nullptr)
    offloaded_ = std::make_unique<OffloadedBlocks>(device, *second_memory);
  if (!offloaded_) settings_.offload_fraction = 0, settings_.offload_shards = false;
  // One rank has everything; its shards are whole, wherever they live.
  if (groups.dp_cp_inner().size() == 1 && !settings_.offload_shards)
    settings_.shard_gradients = settings_.shard_weights = false;
  settings_.share_state &= groups.dp_cp_outer().size() > 1;
  if (settings_.share_state) no_copies_ = make_self_communicator("copies of runs");
  // Without virtual stages the one reduction of a stage starts with its last backward anyway.
  settings_.align_grad_reduce &= groups.pp().size() > 1 && chunks.size() > 1;
  alone_ = make_self_communicator("frozen parameters");
  for (size_t i = 0; i < chunks.size(); ++i) add_chunk(chunks);
  list_buckets();
  list_runs();
  list_run_buckets();
  make_masters_of_runs();
  add_accumulations(device);
  make_reduction();
  make_gathers();
}

void ParameterStore::check_settings() const {
  const ParallelGroups& groups = groups_;
  VIADUCT_CHECK(ShapeError, settings_.distributed_optimizer || groups.dp_cp_inner().size() == 1,
                "parameter store: without the distributed optimizer every data rank is an instance "
                "of its own, but {} ranks share one",
                groups.dp_cp_inner().size());
  VIADUCT_CHECK(ShapeError,
                !settings_.reduce_by_exchange ||
                    (settings_.distributed_optimizer && groups.dp_cp_outer().size() == 1),
                "parameter store: an exchange of shards needs the distributed optimizer and one "
                "instance of it, found {}",
                groups.dp_cp_outer().size());
  VIADUCT_CHECK(
      ShapeError,
      !settings_.share_state || (settings_.distributed_optimizer && !settings_.reduce_by_exchange),
      "parameter store: instances that share their state need the distributed optimizer, "
      "without exchange of shards");
  VIADUCT_CHECK(ShapeError, !settings_.fp32_messages || settings_.shard_gradients,
                "parameter store: a format of messages needs shards of gradients");
  VIADUCT_CHECK(ShapeError, !settings_.shard_weights || settings_.shard_gradients,
                "parameter store: shards of weights need shards of gradients");
  VIADUCT_CHECK(ShapeError, !settings_.offload_shards || settings_.shard_weights,
                "parameter store: shards of weights in a second memory need shards of weights");
  VIADUCT_CHECK(
      ShapeError,
      !settings_.shard_gradients || (!settings_.reduce_by_exchange && !settings_.bucket_norms &&
                                     settings_.fp32_accumulation.empty()),
      "parameter store: a rank with shards of gradients has no buckets to exchange, to "
      "measure, or to add up in another format");
  VIADUCT_CHECK(ShapeError,
                !recipe_.stores_codes || recipe_.products.scaling != Scaling::mx ||
                    !settings_.with_masters ||
                    (settings_.distributed_optimizer && !settings_.shard_gradients &&
                     !settings_.gather_with_optimizer_step),
                "parameter store: weights that pass through the memory of gradients need the "
                "distributed optimizer, whole gradients, and gathers after all updates");
}

BufferFormats ParameterStore::formats_of(const Parameter& parameter) const {
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

void ParameterStore::add_chunk(const std::vector<std::vector<ParameterUse>>& chunks) {
  const size_t chunk = runs_end_.size();
  std::vector<const Parameter*> parameters;
  std::vector<int> layers;
  for (const auto& [parameter, layer] : chunks[chunk]) {
    const bool first = entries_.find(parameter) == entries_.end();
    ++entries_[parameter].uses;
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
  for (size_t i = 0; i < parameters.size(); ++i) entry(*parameters[i]).layer = layers[i];
  parameters_.insert(parameters_.end(), parameters.begin(), parameters.end());
  runs_end_.push_back(0);
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

void ParameterStore::add_buffer(size_t chunk, std::vector<const Parameter*> parameters,
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
  if (several && trained && groups_.pp().rank() == 0 && chunk == 0)
    layout.bucket_elements = bucket_elements(settings_, sizes);
  buffers_.emplace_back(device_, chunk, std::move(parameters), make_buffer_layout(sizes, layout),
                        formats, groups, offloaded());
}

void ParameterStore::list_buckets() {
  std::map<const Parameter*, size_t> order;
  for (size_t i = 0; i < parameters_.size(); ++i) order[parameters_[i]] = i;
  for (size_t b = 0; b < buffers_.size(); ++b) {
    const ParameterBuffer& buffer = buffers_[b];
    const size_t first = buckets_.size();
    for (size_t i = 0; i < buffer.layout().buckets.size(); ++i)
      buckets_.push_back({b, i, buffer.chunk(), parameters_.size()});
    for (size_t i = 0; i < buffer.parameters().size(); ++i) {
      const Parameter* parameter = buffer.parameters()[i];
      BucketPlace& place = buckets_[first + buffer.layout().parameters[i].bucket];
      place.parameters.push_back(parameter);
      place.first_use = std::min(place.first_use, order[parameter]);
      Entry& e = entry(*parameter);
      e.buffer = b, e.index = i;
      e.weight = buffer.weight(i);
      e.gradient = buffer.gradient(i);
    }
  }
  // Chunks have their parameters one after the other, so this puts the last chunk first.
  std::sort(buckets_.begin(), buckets_.end(),
            [](const BucketPlace& a, const BucketPlace& b) { return a.first_use > b.first_use; });
  for (size_t i = 0; i < buckets_.size(); ++i)
    for (const Parameter* parameter : buckets_[i].parameters) entry(*parameter).bucket = i;
}

void ParameterStore::make_reduction() {
  const ReduceOp op = settings_.average_in_collective ? ReduceOp::average : ReduceOp::sum;
  if (settings_.shard_gradients) {
    if (settings_.with_gradients) make_gradient_units(op);
    return;
  }
  std::vector<GradientReduction::Bucket> buckets;
  for (const BucketPlace& place : buckets_) {
    const ParameterBuffer& buffer = buffers_[place.buffer];
    buckets.push_back({buffer.bucket_gradients(place.bucket), buffer.shard_gradients(place.bucket),
                       buffer.own_gradients(place.bucket), buffer.groups()});
  }
  reduction_ = std::make_unique<GradientReduction>(std::move(buckets), op,
                                                   settings_.reduce_by_exchange
                                                       ? GradientReduction::Way::exchange
                                                       : GradientReduction::Way::reduce_scatter);
  if (settings_.bucket_norms && settings_.with_gradients) {
    bucket_norms_ =
        device_.allocate(DType::f64, {static_cast<int64_t>(buckets_.size()), kReproducibleSumSize},
                         MemoryTag::other);
    reduction_->before_sending([this](size_t bucket) { add_bucket_norm(bucket); });
  }
}

void ParameterStore::make_gathers() {
  if (settings_.shard_weights) return make_weight_units();
  std::vector<WeightGather::Bucket> weights;
  for (const BucketPlace& place : buckets_) {
    const ParameterBuffer& buffer = buffers_[place.buffer];
    weights.push_back({buffer.bucket_weights(place.bucket), buffer.shard_weights(place.bucket),
                       buffer.groups().shards});
  }
  std::reverse(weights.begin(), weights.end());
  gather_ = std::make_unique<WeightGather>(std::move(weights));
}

void ParameterStore::add_accumulations(Device& device) {
  for (const Parameter* parameter : parameters_) {
    Entry& e = entry(*parameter);
    if (!e.gradient || e.gradient.dtype() == kernel_gradient_) continue;
    if (any_fits(settings_.fp32_accumulation, *parameter)) {
      e.accumulation =
          device.allocate(kernel_gradient_, parameter->shape, MemoryTag::main_gradients);
    }
  }
}

void ParameterStore::list_runs() {
  for (const ParameterBuffer& buffer : buffers_) {
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
      entry(*buffer.parameters()[i]).run = static_cast<int>(runs_.size());
      runs_.push_back(
          {buffer.parameters()[i], ranges->in_parameter, run_of(buffer.own_weights(bucket)),
           run_of(buffer.own_masters(bucket)), run_of(buffer.own_gradients(bucket)), Tensor(),
           stores_codes(*buffer.parameters()[i]) || passes_gradients(*buffer.parameters()[i])});
      run_gradients_.push_back(runs_.back().gradient);
    }
    runs_end_[buffer.chunk()] = runs_.size();
  }
}

}  // namespace viaduct
