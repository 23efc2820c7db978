#pragma once
// Parameters that are part of a model's folder and that nothing reads.

#include <utility>

#include "nn/norm.h"
#include "nn/segment.h"

namespace viaduct {

/// Computes nothing: its parameters are loaded, saved and exported with the others. They must be
/// frozen, as they have no gradient.
class KeptParameters final : public Segment {
 public:
  /// Those of the segments, of the norms, and others.
  KeptParameters(std::vector<std::unique_ptr<Segment>> segments, std::vector<Norm> norms,
                 std::vector<std::shared_ptr<const Parameter>> others)
      : segments_(std::move(segments)), norms_(std::move(norms)), others_(std::move(others)) {}

  Edge inputs(const RankContext&, const Batch&) const override { return {}; }
  std::vector<std::string_view> outputs() const override { return {}; }
  TensorSet forward(RankContext&, const Batch&, const TensorSet&, SavedStore&) override {
    return {};
  }
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override {
    return {};
  }
  void backward_weight(RankContext&, const Batch&, SavedStore&) override {}
  std::vector<const Parameter*> parameters() const override;
  std::vector<const Parameter*> read_backward() const override { return {}; }
  std::string_view name() const override { return "kept_parameters"; }

 private:
  std::vector<std::unique_ptr<Segment>> segments_;
  std::vector<Norm> norms_;
  std::vector<std::shared_ptr<const Parameter>> others_;
};

}  // namespace viaduct
