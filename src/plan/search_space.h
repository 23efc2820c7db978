#pragma once
// The layouts of one variant of a request, and their lower bounds from the coarsest to the closest:
//
//   model    of the whole model on one rank, shared among the ranks
//   largest  of a layer on the layout's tensor, context and expert ranks, with the largest
//            micro-batch of all layouts and without recompute
//   kept     of that layer with the layout's own micro-batch
//   layer    and with the layout's own recompute
//   sharded  and with weights and gradients sharded over the layout's data ranks, if they are
//
// Many layouts share the dry runs of the first ones, so most are ruled out without runs of their
// own.

#include "plan/bounds.h"
#include "plan/layer_costs.h"
#include "plan/search_limits.h"

namespace viaduct {

enum class BoundBasis : uint8_t { model, largest, kept, layer, sharded };
inline constexpr BoundBasis kClosestBasis = BoundBasis::sharded;

class SearchSpace {
 public:
  /// ConfigError as of LayerCosts and search_limits; DeadlineError as of `dry_run`.
  explicit SearchSpace(const PlanRequest& request, std::shared_ptr<const Variant> variant = {},
                       const Deadline& deadline = {});

  const std::shared_ptr<const Variant>& variant() const { return variant_; }
  const std::vector<Layout>& layouts() const { return layouts_; }
  const SearchLimits& limits() const { return limits_; }
  const ModelCost& model() const { return model_; }
  LayerCosts& costs() { return costs_; }
  const LayerCosts& costs() const { return costs_; }

  /// The sizes whose layer must be known for a bound of `basis` (model: none).
  Layout needed(const Layout& layout, BoundBasis basis) const;
  /// Null if what `basis` needs is not known yet.
  std::optional<LowerBound> bound(const Layout& layout, BoundBasis basis) const;
  /// The closest bound; makes the dry runs that it needs.
  LowerBound closest(const Layout& layout, const Deadline& deadline = {});

 private:
  std::shared_ptr<const Variant> variant_;
  LayerCosts costs_;
  SearchLimits limits_;
  ModelCost model_;
  LayoutBound bound_;
  std::vector<Layout> layouts_;
  int64_t most_rows_ = 1;  // of a micro-batch
};

}  // namespace viaduct
