#include "plan/bounds.h"

#include <algorithm>

#include "plan/uneven_stages.h"

namespace viaduct {
namespace {

constexpr double kEmbeddingShare = 0.49;

/// Bytes of one parameter, or of anything with such states, on a rank, with the shards of the
/// layout.
double state_bytes(const StateBytes& bytes, const Layout& layout) {
  const double shards = std::max(layout.shards(), layout.expert_shards());
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

/// What embedding, encoder and head add to a micro-batch of the stage that has more of them: with
/// several stages the head, which the others are not beside, or the encoder.
double end_seconds_of_one_stage(const LayerCost& layer, const Layout& layout) {
  if (layout.pp == 1) return layer.end_seconds;
  const double front = layer.embedding_seconds + layer.encoder_seconds;
  return std::max({layer.end_seconds / 2, layer.end_seconds - front, layer.encoder_seconds});
}

int uneven_layers_of_stage(const Layout& layout, int stage) {
  int layers = 0;
  for (int chunk = stage; chunk < layout.pp * layout.vpp; chunk += layout.pp)
    layers += uneven_layers_of(layout, chunk);
  return layers;
}

/// What is known of the ends' memory without the encoder that they were measured beside.
LayerCost without_bytes_of_ends(LayerCost layer) {
  layer.end_parameters = layer.other_bytes = 0;
  layer.end_trained = {};
  return layer;
}

/// Of the slowest of an encoder's own stages: its mean stage. Fewer tensor ranks than those that it
/// was measured on have more to do, and more at least their share.
double encoder_stage_seconds(const LayerCost& layer, const Layout& layout) {
  const double share = std::min(1.0, static_cast<double>(layout.tp) / layout.encoder_tp);
  return static_cast<double>(layout.micro_batches) * layer.encoder_seconds * share /
         layout.encoder_stages;
}

}  // namespace

double micro_batches_in_flight(const Layout& layout) {
  const auto n = static_cast<double>(layout.micro_batches);
  const double p = layout.pp, v = layout.vpp;
  if (layout.pp == 1) return 1;
  if (layout.vpp == 1) return std::min(n, p);
  return std::min(n * v, 2 * (p - 1) + (v - 1) * p + 1) / v;
}

LowerBound model_bound(const ModelCost& model, const Layout& layout) {
  const auto n = static_cast<double>(layout.micro_batches);
  const double p = layout.pp, v = layout.vpp;
  const auto ranks = static_cast<double>(layout.ranks());
  // Of equal stages: a longer first stage computes in what would be its own.
  const double bubble = model.has_bubble && !model.has_encoder ? (p - 1) / (v * n) : 0;
  const auto again_layers = std::max(0.0, static_cast<double>(model.counted_layers - 1));
  const double again =
      again_layers * model.layer_again_seconds[static_cast<size_t>(layout.recompute)];
  // Dense weights are cut over tp ranks, experts over ep · etp.
  const double cuts = std::max(layout.tp, layout.ep * layout.etp);
  const double own = double(layout.encoder_tp) * layout.encoder_stages;
  return {(model.step_seconds * (1 + bubble) + again) / ranks,
          model.parameters / (cuts * p + own) * state_bytes(model.bytes, layout)};
}

LayerCost share_of(const LayerCost& largest, int64_t rows, int64_t most) {
  LayerCost cost = largest;
  const double share = static_cast<double>(rows) / static_cast<double>(most);
  cost.layer_seconds *= share, cost.layer_kept_bytes *= share;
  cost.end_seconds *= share, cost.embedding_seconds *= share, cost.encoder_seconds *= share;
  cost.again_seconds = 0, cost.other_bytes = 0;
  return cost;
}

LayoutBound::LayoutBound(const ModelCost& model, const Cluster& cluster,
                         const CollectiveTimeSettings& collectives)
    : model_(model), collective_time_(cluster, collectives) {}

double LayoutBound::gradient_exchange_seconds(const Layout& layout, const LayerCost& layer) const {
  if (layout.sharding == Sharding::given) return 0;
  // Weights once, and gradients in the narrower of their formats and the weights'; fully sharded:
  // both for each micro-batch, and weights again for the backward, but those of the last layer.
  double gradients = model_.bytes.gradients;
  if (model_.some_frozen && !model_.layers_frozen)
    gradients = layer.layer_trained.gradients / layer.layer_parameters;
  gradients = std::min(model_.bytes.weights, gradients);
  const double stage_layers = static_cast<double>(model_.counted_layers) / layout.pp;
  const bool full = layout.sharding == Sharding::full;
  if (model_.layers_frozen && !full) return 0;
  const double again = full ? std::max(0.0, 1 - 1 / stage_layers) : 0;
  const double wire = stage_layers * ((1 + again) * model_.bytes.weights + gradients);
  const auto seconds = [&](double parameters, int ranks, int stride) {
    if (ranks == 1 || parameters <= 0) return 0.0;
    return collective_time_.seconds(Collective::all_gather, wire * parameters,
                                    collective_time_.strided_extent(ranks, stride));
  };
  // Experts have fewer copies, in groups of their own, which may be under way at the same time.
  const double once = layout.ep == 0
                          ? seconds(layer.layer_parameters, layout.shards(), layout.tp)
                          : std::max(seconds(layer.layer_parameters - layer.expert_parameters,
                                             layout.shards(), layout.tp),
                                     seconds(layer.expert_parameters, layout.expert_shards(),
                                             layout.ep * layout.etp));
  return full ? static_cast<double>(layout.micro_batches) * once : once;
}

LowerBound LayoutBound::shared(const LayerCost& largest, int64_t most, const Layout& layout) const {
  LayerCost cost = share_of(largest, layout.micro_batch, most);
  // Recompute keeps less, and its time is known only for one rank.
  if (layout.recompute != Recompute::none) cost.layer_kept_bytes = 0;
  const double share =
      static_cast<double>(layout.micro_batch) / model_.rows / (double(layout.tp) * layout.cp);
  cost.again_seconds = model_.layer_again_seconds[static_cast<size_t>(layout.recompute)] * share;
  // With many rows the head may recompute its logits.
  cost.end_seconds = std::min(cost.end_seconds, model_.end_seconds * share);
  return of(cost, layout);
}

LowerBound LayoutBound::of(const LayerCost& measured, const Layout& layout) const {
  LowerBound bound = model_bound(model_, layout);
  if (!measured.known || !model_.even_stages) return bound;
  const bool own_stages = layout.encoder_stages > 0;
  LayerCost layer = measured;
  if (own_stages) {
    bound.seconds = std::max(bound.seconds, encoder_stage_seconds(measured, layout));
    layer.end_seconds = std::max(0.0, layer.end_seconds - layer.encoder_seconds);
    layer.encoder_seconds = 0;
  }
  if (own_stages || (model_.has_encoder && layout.pp > 1)) layer = without_bytes_of_ends(layer);
  const auto n = static_cast<double>(layout.micro_batches);
  const int64_t cut = model_.layers + model_.account_for_embedding + model_.account_for_loss;
  const auto layers = static_cast<double>(model_.counted_layers);
  const bool all = model_.counted_layers == model_.layers;
  // Stages have the same number of counted layers.
  const bool equal = layout.pp == 1 || (all && cut == model_.layers && layout.uneven_layers == 0);
  const auto most = static_cast<double>((model_.counted_layers + layout.pp - 1) / layout.pp);
  const double t = layer.layer_seconds;
  // Stages before the last recompute all of their layers.
  const double again = layout.pp > 1 && equal ? most : most - 1;
  // The backward of the last layer may find its weights gathered.
  double seconds = n * (most * t + again * layer.again_seconds +
                        std::max(0.0, most - 1) * layer.sharded_seconds);
  const bool has_bubble = model_.has_bubble && (own_stages || !model_.has_encoder);
  if (has_bubble) seconds += (layers - most) * t / layout.vpp;
  if (equal) seconds += n * end_seconds_of_one_stage(layer, layout);
  const double shards =
      layout.sharding == Sharding::none ? 1 : std::max(layout.shards(), layout.expert_shards());
  seconds += most * layer.layer_update_seconds / shards;
  // Gradients are complete in the backward of the last micro-batches, and updated weights are
  // needed in the forward of the first. Virtual stages take turns in groups of pp micro-batches.
  const double at_end = layout.vpp == 1 ? 1 : std::min<double>(n, layout.pp);
  // What other layers may hide is not known.
  const double hidden = layout.sharding == Sharding::full || !all
                            ? seconds
                            : at_end * (most * (t + layer.again_seconds) + measured.end_seconds) +
                                  most * layer.layer_update_seconds / shards;
  seconds += std::max(0.0, gradient_exchange_seconds(layout, layer) - hidden);
  bound.seconds = std::max(bound.seconds, seconds);

  const double state = state_bytes(model_.bytes, layout);
  const auto per_stage = static_cast<double>(cut / layout.pp);
  const double kept = layer.layer_kept_bytes;
  const double of_layer = layer.layer_parameters * state + state_bytes(layer.layer_trained, layout);
  if (layout.pp == 1) {
    bound.bytes =
        std::max(bound.bytes, layers * (of_layer + kept) + layer.end_parameters * state +
                                  state_bytes(layer.end_trained, layout) + layer.other_bytes);
    return bound;
  }
  // All others may be in one stage.
  const auto others = static_cast<double>(model_.layers - model_.counted_layers);
  const bool uneven = layout.uneven_layers > 0;
  const double of_first =
      uneven ? uneven_layers_of_stage(layout, 0) : per_stage - model_.account_for_embedding;
  const double of_last =
      uneven ? uneven_layers_of_stage(layout, layout.pp - 1) : per_stage - model_.account_for_loss;
  const double first = std::max(0.0, of_first - others), last = std::max(0.0, of_last - others);
  double in_flight = micro_batches_in_flight(layout), in_last = 1.0 / layout.vpp;
  if (model_.all_in_flight) in_flight = in_last = n;
  if (!layer.keeps_alike) in_flight = 1, in_last = 1.0 / layout.vpp;
  // The embedding is nearly half of both ends: the head has the last norm.
  bound.bytes = std::max(
      {bound.bytes, most * (of_layer + kept / layout.vpp),
       first * (of_layer + in_flight * kept) + kEmbeddingShare * layer.end_parameters * state,
       last * (of_layer + in_last * kept) + layer.end_parameters / 2 * state +
           (model_.all_in_flight ? 0 : layer.other_bytes)});
  return bound;
}

}  // namespace viaduct
