#include "plan/bounds.h"

#include <algorithm>

namespace viaduct {
namespace {

/// Of one parameter on a rank, in the shards of the layout.
double state_bytes(const StateBytes& bytes, const Layout& layout) {
  const double shards = layout.shards();
  switch (layout.sharding) {
    case Sharding::none:
      return bytes.weights + bytes.gradients + bytes.optimizer;
    case Sharding::optimizer:
      return bytes.weights + bytes.gradients + bytes.optimizer / shards;
    case Sharding::full:
    case Sharding::given:  // at least this
      return (bytes.weights + bytes.gradients + bytes.optimizer) / shards;
  }
  return 0;
}

}  // namespace

double micro_batches_in_flight(const Layout& layout) {
  const auto n = static_cast<double>(layout.micro_batches);
  const double p = layout.pp, v = layout.vpp;
  if (layout.pp == 1) return 1;
  if (layout.vpp == 1) return std::min(n, p);
  return std::min(n * v, 2 * (p - 1) + (v - 1) * p) / v;
}

LowerBound model_bound(const ModelCost& model, const Layout& layout) {
  const auto n = static_cast<double>(layout.micro_batches);
  const double p = layout.pp, v = layout.vpp;
  const double ranks = double(layout.tp) * layout.cp * p * layout.dp;
  const double bubble = model.has_bubble ? (p - 1) / (v * n) : 0;
  const double again_layers = std::max(0.0, static_cast<double>(model.layers) - p * v);
  const double again =
      again_layers * model.layer_again_seconds[static_cast<size_t>(layout.recompute)];
  return {
      (model.step_seconds * (1 + bubble) + again) / ranks,
      model.parameters / (layout.tp * p * model.expert_ranks) * state_bytes(model.bytes, layout)};
}

LayoutBound::LayoutBound(const ModelCost& model, const Cluster& cluster,
                         const CollectiveTimeSettings& collectives)
    : model_(model), collective_time_(cluster, collectives) {}

double LayoutBound::gradient_exchange_seconds(const Layout& layout, double parameters) const {
  if (layout.shards() == 1 || layout.sharding == Sharding::given) return 0;
  // Weights once, and gradients in the narrower of their formats and the weights'; fully sharded:
  // both for each micro-batch.
  const double wire = model_.bytes.weights + std::min(model_.bytes.weights, model_.bytes.gradients);
  const double once = collective_time_.seconds(
      "all_gather", wire * parameters, collective_time_.strided_extent(layout.shards(), layout.tp));
  return layout.sharding == Sharding::full ? once * static_cast<double>(layout.micro_batches)
                                           : once;
}

LowerBound LayoutBound::of(const LayerCost& layer, const Layout& layout) const {
  LowerBound bound = model_bound(model_, layout);
  if (!layer.known || !model_.even_stages) return bound;
  const auto n = static_cast<double>(layout.micro_batches);
  const int64_t cut = model_.layers + model_.account_for_embedding + model_.account_for_loss;
  const auto layers = static_cast<double>(model_.layers);
  const bool equal = cut == model_.layers;  // stages have equally many layers
  const auto most = static_cast<double>((model_.layers + layout.pp - 1) / layout.pp);
  const double t = layer.layer_seconds;
  double seconds = n * (most * t + std::max(0.0, most - layout.vpp) * layer.again_seconds);
  if (model_.has_bubble) seconds += (layers - most) * t / layout.vpp;
  // The head or the embedding takes at least half of what both do.
  if (equal) seconds += n * layer.end_seconds / (layout.pp == 1 ? 1 : 2);
  const double shards = layout.sharding == Sharding::none ? 1 : layout.shards();
  seconds += most * layer.layer_update_seconds / shards;
  const double stage_layers = layers / layout.pp;
  bound.seconds =
      std::max({bound.seconds, seconds,
                gradient_exchange_seconds(layout, stage_layers * layer.layer_parameters)});

  const double state = state_bytes(model_.bytes, layout);
  const auto per_stage = static_cast<double>(cut / layout.pp);
  const double kept = layer.layer_kept_bytes, of_layer = layer.layer_parameters * state;
  if (layout.pp == 1) {
    bound.bytes = std::max(
        bound.bytes, layers * (of_layer + kept) + layer.end_parameters * state + layer.other_bytes);
    return bound;
  }
  const double first = per_stage - model_.account_for_embedding;
  const double last = per_stage - model_.account_for_loss;
  double in_flight = micro_batches_in_flight(layout), in_last = 1.0 / layout.vpp;
  if (model_.all_in_flight) in_flight = in_last = n;
  if (!layer.keeps_alike) in_flight = 1, in_last = 1.0 / layout.vpp;
  bound.bytes = std::max({bound.bytes, first * (of_layer + in_flight * kept),
                          last * (of_layer + in_last * kept) + layer.end_parameters / 2 * state});
  return bound;
}

}  // namespace viaduct
