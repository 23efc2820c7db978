#pragma once
// Rows of image features over tensor ranks, where those of the vision tower are more or fewer than
// those of the text model (nn/split_rows.h).

#include "nn/image_projector.h"

namespace viaduct {

/// At the end of a tower: the rank's part of the rows of its images. `needs_gradient`: of what made
/// the features.
class ImagePartSegment final : public Segment {
 public:
  /// Features of an image: [rows, hidden] from `tokens` tokens of the tower.
  ImagePartSegment(int64_t tokens, int64_t rows, int64_t hidden, bool needs_gradient)
      : tokens_(tokens), rows_(rows), hidden_(hidden), needs_gradient_(needs_gradient) {}

  Edge inputs(const RankContext& context, const Batch& batch) const override;
  std::vector<std::string_view> outputs() const override { return {kImageFeatures}; }
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override {}
  std::vector<const Parameter*> parameters() const override { return {}; }
  std::string_view name() const override { return "image_part"; }

 private:
  int64_t all_rows(const Batch& batch) const { return batch.stream_tokens / tokens_ * rows_; }

  int64_t tokens_, rows_, hidden_;
  bool needs_gradient_;
};

/// In front of a text model: all rows of the rank's images from the parts.
class ImagePartsSegment final : public Segment {
 public:
  ImagePartsSegment(int64_t hidden, bool needs_gradient)
      : hidden_(hidden), needs_gradient_(needs_gradient) {}

  Edge inputs(const RankContext& context, const Batch& batch) const override;
  std::vector<std::string_view> outputs() const override { return {kImageFeatures}; }
  bool makes(std::string_view, const Batch& batch) const override { return batch.images.any(); }
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override {}
  std::vector<const Parameter*> parameters() const override { return {}; }
  std::string_view name() const override { return "image_parts"; }

 private:
  int64_t hidden_;
  bool needs_gradient_;
};

}  // namespace viaduct
