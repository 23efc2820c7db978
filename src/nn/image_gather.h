#pragma once
// Features of the images of all context ranks, whose vision towers have whole images each
// (engine/deal_images.h).

#include "nn/image_projector.h"

namespace viaduct {

class ImageGatherSegment final : public Segment {
 public:
  /// Features of an image: [rows, hidden] from `tokens` tokens of the tower. `needs_gradient`: of
  /// what made them.
  ImageGatherSegment(int64_t tokens, int64_t rows, int64_t hidden, bool needs_gradient)
      : tokens_(tokens), rows_(rows), hidden_(hidden), needs_gradient_(needs_gradient) {}

  Edge inputs(const RankContext& context, const Batch& batch) const override;
  std::vector<std::string_view> outputs() const override { return {kImageFeatures}; }
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  /// Each context rank has the gradient of all rows by its own tokens of the text.
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override {}
  std::vector<const Parameter*> parameters() const override { return {}; }
  std::string_view name() const override { return "image_gather"; }

 private:
  int64_t tokens_, rows_, hidden_;
  bool needs_gradient_;
};

}  // namespace viaduct
