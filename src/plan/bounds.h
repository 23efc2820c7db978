#pragma once
// Lower bounds of a layout's step time and peak memory in closed form: what the search orders and
// prunes layouts with. They are computed from costs that dry runs of the same trainer gave (of the
// whole model on one rank, and of one and two layers), so they hold no model of memory of their
// own; tests compare them with the dry runs of whole layouts, which they may never exceed.
//
//   time    n · m · t + (L − m) · t / v, and recomputation; and the data ranks' communication as
//           far as it is longer than the micro-batches that may hide it
//   memory  state of the first stage's layers + micro-batches in flight · their kept activations
//
// If layers differ, those of one kind count (plan/counted_layers.h), of the stage that has most.
//
// n micro-batches, m layers of the largest of the stages, t seconds of a layer (forward and
// backward of one micro-batch, with the communication that its tensor, context and expert ranks
// wait for), L layers, v chunks of a stage. Bubble and stages: Narayanan et al.
// 2021 (arXiv 2104.04473, section 2).

#include <array>
#include <cstdint>

#include "plan/collective_time.h"
#include "plan/layout.h"

namespace viaduct {

/// Bytes of a parameter where nothing is sharded.
struct StateBytes {
  double weights = 0, gradients = 0, optimizer = 0;
};

/// Of the whole model, for all layouts.
struct ModelCost {
  int64_t layers = 1;
  /// Of them, those whose cost is that of a `LayerCost`. Others cost at least nothing.
  int64_t counted_layers = 1;
  double parameters = 0;  // of all layers and both ends
  StateBytes bytes;
  double step_seconds = 0;  // of the global batch on one GPU, without recompute, at least
  double end_seconds = 0;   // of that, of embedding and head
  /// Seconds that recompute adds for each layer; by Recompute.
  std::array<double, kRecomputes> layer_again_seconds{};
  /// Layers that count one more when they are cut into stages.
  bool account_for_embedding = false, account_for_loss = false;
  bool has_bubble = true;      // false: weight gradients fill it (zero_bubble)
  bool all_in_flight = false;  // all forwards come before the first backward (gpipe)
  bool even_stages = true;     // false: stages as the configuration describes them
  /// Or a vision tower: on the first stage, which then has more to do than the others, or on stages
  /// of its own.
  bool has_encoder = false;
  double rows = 1;  // of the global batch
  /// Not all weights train: `bytes` has no gradients and optimizer states, which are those that the
  /// dry runs of layers have (LayerCost::layer_trained, end_trained).
  bool some_frozen = false;
  /// Those of layers do not, beside their adapters: only what is fully sharded is exchanged.
  bool layers_frozen = false;
};

/// Of one micro-batch on one rank: it depends on (tp, cp, ep, etp, micro-batch, recompute), and on
/// dp where weights and gradients are sharded.
struct LayerCost {
  bool known = false;  // false: of layers that differ from each other, or no dry run could be made
  double layer_parameters = 0, end_parameters = 0;  // of the rank; ends: embedding and head
  double expert_parameters = 0;  // of a layer's, those of experts, which have groups of their own
  double layer_seconds = 0, end_seconds = 0;  // forward and backward, without recompute
  double embedding_seconds = 0;               // of the ends', those before the first layer
  double encoder_seconds = 0;  // of the ends', those of an encoder in front of the embedding
  /// In addition, with recompute. The last layer of the model may do without: its backward directly
  /// follows its forward.
  double again_seconds = 0;
  double layer_update_seconds = 0;  // of the optimizer, nothing sharded
  /// In addition, with weights and gradients sharded over the layout's data ranks.
  double sharded_seconds = 0;
  /// Gradients and optimizer states of a layer and of the ends, where some weights are frozen.
  StateBytes layer_trained, end_trained;
  double layer_kept_bytes = 0;  // from forward to backward
  double other_bytes = 0;       // in addition to states and what layers keep, at the fullest moment
  bool keeps_alike = true;      // false: what is kept differs between micro-batches
};

/// The minimum cost of a layer with `rows` in a micro-batch, from its cost with more of them,
/// `most`, and without recompute: kernels that work on less at a time take longer for each row.
LayerCost share_of(const LayerCost& largest, int64_t rows, int64_t most);

struct LowerBound {
  double seconds = 0;
  double bytes = 0;
};

/// The bound of all layouts: operations at the full rate, and the states of an average rank.
LowerBound model_bound(const ModelCost& model, const Layout& layout);

/// At least as high as `model_bound`.
class LayoutBound {
 public:
  LayoutBound(const ModelCost& model, const Cluster& cluster,
              const CollectiveTimeSettings& collectives);
  LowerBound of(const LayerCost& layer, const Layout& layout) const;
  /// The bound from the cost of the layer with `most` rows in a micro-batch, which layouts with
  /// fewer share. At most `of` the layout's own cost.
  LowerBound shared(const LayerCost& largest, int64_t most, const Layout& layout) const;

 private:
  double gradient_exchange_seconds(const Layout& layout, const LayerCost& layer) const;

  ModelCost model_;
  CollectiveTime collective_time_;
};

/// Micro-batches whose forward a first stage has run and whose backward it has not, in units of
/// whole stages: 1F1B min(n, p), interleaved 2 (p − 1) + (v − 1) p chunks and the one that runs
/// before the first backward, of v (the same paper).
double micro_batches_in_flight(const Layout& layout);

}  // namespace viaduct
