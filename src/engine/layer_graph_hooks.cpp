#include "engine/layer_graph_hooks.h"

#include <algorithm>

namespace viaduct {
namespace {

/// What of a segment is in a graph.
enum class Captured { nothing, until_it_exchanges, all };

/// By the modules of model.cuda_graph_modules; none: the whole layer.
Captured captured(const std::vector<GraphModule>& modules, const Layer& layer,
                  const Segment& segment) {
  using enum GraphModule;
  if (layer.block < 0) return Captured::nothing;
  const auto has = [&](GraphModule module) { return std::ranges::count(modules, module) > 0; };
  const std::string_view name = segment.name();
  const bool experts = layer.in_experts(segment);
  // A parallel block is one segment.
  const bool both = has(attn) && has(mlp) && name == "parallel_block";
  if (modules.empty() || both || (has(moe) && experts) || (has(attn) && name == "attention") ||
      (has(mlp) && name == "mlp" && !experts) ||
      (has(moe_router) && (name == "router" || name == "shared_experts")))
    return Captured::all;
  const bool dispatch = has(moe_preprocess) && name == "dispatch";
  return dispatch ? Captured::until_it_exchanges : Captured::nothing;
}

/// Whether the walk goes on with a segment of the same layer.
bool stays_in_layer(const SegmentEvent& event) {
  if (event.coming.empty()) return false;
  const Segment* const next = event.coming.front().segment;
  return std::ranges::any_of(event.layer.segments,
                             [&](const auto& segment) { return segment.get() == next; });
}

}  // namespace

bool LayerGraphHooks::begin_step() {
  ++steps_;
  // The last step before graphs shows which launches come again.
  if (steps_ < settings_.steps_before) return false;
  groups_.begin_step(steps_ > settings_.steps_before);
  return true;
}

void LayerGraphHooks::before(const SegmentEvent& event) {
  const Captured what = captured(settings_.modules, event.layer, event.segment);
  if (what == Captured::nothing) return groups_.end_group();
  groups_.begin_group(what == Captured::until_it_exchanges);
}

void LayerGraphHooks::after(const SegmentEvent& event, const TensorSet&) {
  if (!stays_in_layer(event)) groups_.end_group();
}

}  // namespace viaduct
