#pragma once
// The inputs of lower bounds: dry runs of the whole model on one rank, and of one and two
// of its layers on the ranks that share a micro-batch.

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/deadline.h"
#include "plan/bounds.h"
#include "plan/counted_layers.h"
#include "plan/layout_setup.h"

namespace viaduct {

/// Of one variant of the request.
class LayerCosts {
 public:
  /// Makes the dry run of the whole model on one rank.
  explicit LayerCosts(const PlanRequest& request, std::shared_ptr<const Variant> variant = {},
                      const Deadline& deadline = {});

  const ModelCost& model() const { return model_; }
  /// The one rank's run: what all layouts have in common.
  const RunSetup& whole() const { return whole_; }
  /// Whether the model has layers whose cost bounds count.
  bool counts_layers() const { return counted_.count() > 1; }
  /// Made at the first call for these sizes.
  const LayerCost& of(const Layout& layout, const Deadline& deadline = {});
  /// Null if it was not made.
  const LayerCost* made(const Layout& layout) const;
  /// Computes what `of` returns, without keeping it: any number of threads may call it at the same
  /// time. DeadlineError as of `dry_run`.
  LayerCost measured(const Layout& layout, const Deadline& deadline = {}) const;
  /// Keeps what `measured` returned for the layout.
  void keep(const Layout& layout, const LayerCost& cost) { made_[key_of(layout)] = cost; }
  /// Seconds of embedding and head of the layout's micro-batch whose logits are made once, whether
  /// the trainer would recompute them or not; 0 if that is not known.
  double end_seconds_once(const Layout& layout, const Deadline& deadline = {}) const {
    return make(layout, {"model.recompute_logits=false"}, deadline).end_seconds;
  }
  /// Pairs of dry runs that are kept.
  int64_t pairs() const { return static_cast<int64_t>(made_.size()); }

 private:
  using Key = std::tuple<int, int, int, int, int, int64_t, Recompute>;
  static Key key_of(const Layout& l) {
    const int sharded = l.sharding == Sharding::full ? l.dp : 0;
    return {l.tp, l.cp, l.ep, l.etp, sharded, l.micro_batch, l.recompute};
  }
  LayerCost make(const Layout& layout, const std::vector<std::string>& overrides = {},
                 const Deadline& deadline = {}) const;
  /// A run of `layers` of the counted layers.
  RunSetup setup_of(const Layout& layout, const std::vector<std::string>& overrides,
                    int64_t layers) const;
  /// Seconds of a layer's micro-batch with weights and gradients sharded over the data ranks, with
  /// recompute; 0 if that is not known.
  double sharded_layer_seconds(const Layout& layout, const Deadline& deadline) const;
  /// Whether the exchange of experts' rows may run during the compute of another micro-batch: then
  /// no lower bound includes it.
  bool hides_exchange(const Layout& layout) const;
  /// Removes recomputation from the seconds of `cost`, because not every layer is recomputed.
  static void set_apart(LayerCost& cost, const LayerCost& without);

  PlanRequest request_;
  std::shared_ptr<const Variant> variant_;
  bool sharded_ = false;  // the trainer takes the run only with sharded optimizer state
  RunSetup whole_;
  CountedLayers counted_;
  ModelCost model_;
  std::map<Key, LayerCost> made_;
};

}  // namespace viaduct
