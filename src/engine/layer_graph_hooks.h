#pragma once
// Graphs of single layers (model.cuda_graph_impl = local): around the chosen segments of each
// layer, forwards and backwards, the device groups its launches, and launches a group that came in
// the same way before as a graph. The host runs the program of the layer each time, and so knows
// everything that it would without graphs; it only launches less.

#include "device/launch_groups.h"
#include "model/segment_hooks.h"
#include "run/resolved_run.h"

namespace viaduct {

class LayerGraphHooks final : public SegmentHooks {
 public:
  /// `groups` outlives it.
  LayerGraphHooks(LaunchGroups& groups, const LayerGraphs& settings)
      : groups_(groups), settings_(settings) {}

  /// A step of training begins. False in the first steps, which need no hooks.
  bool begin_step();

  void before(const SegmentEvent& event) override;
  void after(const SegmentEvent& event, const TensorSet& out) override;
  void failed(const SegmentEvent&) noexcept override { groups_.drop_group(); }

 private:
  LaunchGroups& groups_;
  const LayerGraphs settings_;
  int64_t steps_ = 0;
};

}  // namespace viaduct
