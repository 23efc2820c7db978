#include "plan/search_space.h"

#include <algorithm>

#include "plan/layout_space.h"
#include "plan/model_cost.h"

namespace viaduct {

SearchSpace::SearchSpace(const PlanRequest& request, std::shared_ptr<const Variant> variant,
                         const Deadline& deadline)
    : variant_(std::move(variant)),
      costs_(request, variant_, deadline),
      limits_(search_limits(request, costs_.whole(), variant_.get())),
      model_(model_cost(request, limits_, costs_, deadline)),
      bound_(model_, request.cluster, request.prediction.collectives),
      layouts_(enumerate_layouts(limits_.space)) {
  for (Layout& layout : layouts_) {
    layout.variant = variant_;
    most_rows_ = std::max(most_rows_, layout.micro_batch);
  }
}

Layout SearchSpace::needed(const Layout& layout, BoundBasis basis) const {
  Layout sizes = layout;
  if (basis == BoundBasis::largest) sizes.micro_batch = most_rows_;
  if (basis < BoundBasis::layer) sizes.recompute = Recompute::none;
  // Experts have fewer copies: what they gather is left out.
  const bool sharded = basis == BoundBasis::sharded && layout.sharding == Sharding::full &&
                       layout.dp > 1 && layout.ep == 0;
  if (!sharded) sizes.sharding = Sharding::optimizer;
  return sizes;
}

std::optional<LowerBound> SearchSpace::bound(const Layout& layout, BoundBasis basis) const {
  if (basis == BoundBasis::model || !costs_.counts_layers()) return model_bound(model_, layout);
  const Layout sizes = needed(layout, basis);
  const LayerCost* cost = costs_.made(sizes);
  if (cost == nullptr) return std::nullopt;
  return basis >= BoundBasis::layer ? bound_.of(*cost, layout)
                                    : bound_.shared(*cost, sizes.micro_batch, layout);
}

LowerBound SearchSpace::closest(const Layout& layout, const Deadline& deadline) {
  if (costs_.counts_layers())
    for (const BoundBasis basis : {BoundBasis::layer, kClosestBasis})
      costs_.of(needed(layout, basis), deadline);
  return *bound(layout, kClosestBasis);
}

}  // namespace viaduct
