#pragma once
// Features of the images of all context ranks, whose vision towers have whole images each
// (engine/deal_images.h).

#include "nn/image_projector.h"

namespace viaduct {

class ImageGatherSegment final : public Segment {
 public:
  /// `needs_gradient`: of what made the features [rows of images, hidden].
  ImageGatherSegment(int64_t hidden, bool needs_gradient)
      : hidden_(hidden), needs_gradient_(needs_gradient) {}

  Edge inputs(const RankContext& context, const Batch& batch) const override;
  std::vector<std::string_view> outputs() const override { return {kImageFeatures}; }
  /// A pass of generation that begins no image has no features.
  bool makes(std::string_view, const Batch& batch) const override { return batch.images.any(); }
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  /// Each context rank has the gradient of all rows by its own tokens of the text.
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override {}
  std::vector<const Parameter*> parameters() const override { return {}; }
  std::string_view name() const override { return "image_gather"; }

 private:
  int64_t hidden_;
  bool needs_gradient_;
};

}  // namespace viaduct
