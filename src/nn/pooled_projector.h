#pragma once
// From a vision tower's stream to what stands in place of an image's tokens, in Gemma 3: a norm,
// the mean over squares of patches, an RMS norm, and a matrix (Gemma Team 2025, arXiv 2503.19786).

#include "nn/norm.h"
#include "nn/replicated_linear.h"
#include "nn/segment.h"

namespace viaduct {

struct PooledProjectorParts {
  std::string input;           // name of the features [T, width]
  int64_t across = 0;          // patches of a side of an image …
  int64_t pooled = 0;          // … and squares of them
  bool input_gradient = true;  // false: the tower is frozen, and nothing goes back to it
  Norm tower_norm, pooled_norm;
  ReplicatedLinear projection;  // [H, width]
};

class PooledProjectorSegment final : public Segment {
 public:
  explicit PooledProjectorSegment(PooledProjectorParts parts) : parts_(std::move(parts)) {}

  Edge inputs(const RankContext& context, const Batch& batch) const override;
  std::vector<std::string_view> outputs() const override;
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override;
  std::vector<const Parameter*> parameters() const override;
  std::string_view name() const override { return "pooled_projector"; }

 private:
  int64_t side() const { return parts_.across / parts_.pooled; }
  /// Those of the rows of patches [images · across², width] that are at (y, x) in their square, as
  /// [images · pooled, pooled, width].
  Tensor patches_at(const Tensor& patches, int64_t images, int64_t y, int64_t x) const;

  PooledProjectorParts parts_;
};

}  // namespace viaduct
