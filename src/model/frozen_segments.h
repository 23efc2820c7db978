#pragma once
// Layers that do not train and have nothing in front of them that does: forward alone, and nothing
// is kept for a backward.

#include "nn/segment.h"

namespace viaduct {

class FrozenSegments final : public Segment {
 public:
  /// `layer`: its segments run one after the other. What they read of layers in front of them has
  /// no gradient. `outputs`: what they leave, whose readers must declare that it needs none.
  FrozenSegments(Layer layer, std::vector<std::string> outputs)
      : layer_(std::move(layer)), outputs_(std::move(outputs)) {}

  Edge inputs(const RankContext& context, const Batch& batch) const override;
  std::vector<std::string_view> outputs() const override {
    return {outputs_.begin(), outputs_.end()};
  }
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override {
    return {};
  }
  void backward_weight(RankContext&, const Batch&, SavedStore&) override {}
  std::vector<const Parameter*> parameters() const override;
  std::vector<const Parameter*> read_backward() const override { return {}; }
  /// Of one segment, its own.
  std::string_view name() const override {
    return layer_.segments.size() == 1 ? layer_.segments.front()->name() : "frozen_segments";
  }

 private:
  Layer layer_;
  std::vector<std::string> outputs_;
};

}  // namespace viaduct
