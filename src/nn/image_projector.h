#pragma once
// From a vision tower's features to what stands in place of an image's tokens: features of some of
// its layers side by side, without the tokens in front of the patches, through two linear layers
// (Liu et al. 2023, arXiv 2310.03744, section 3).

#include "nn/linear.h"
#include "nn/segment.h"
#include "ops/activation.h"

namespace viaduct {

/// [rows of all images, H] in the activation format: a row for each token of the text model's rows
/// that an image takes.
inline constexpr std::string_view kImageFeatures = "image_features";
EdgeTensor image_features_edge(const RankContext& context, int64_t rows, int64_t hidden);

struct ImageProjectorParts {
  std::vector<std::string> inputs;  // names of the features, each [T, width]
  int64_t width = 0;
  int64_t tokens = 0;   // of an image in the tower …
  int64_t leading = 0;  // … and how many of them, in front of the others, are dropped
  /// False: the tower is frozen, and nothing goes back to it.
  bool input_gradient = true;
  Linear up, down;
  ActivationKind activation = ActivationKind::gelu;
};

class ImageProjectorSegment final : public Segment {
 public:
  explicit ImageProjectorSegment(ImageProjectorParts parts) : parts_(std::move(parts)) {}

  Edge inputs(const RankContext& context, const Batch& batch) const override;
  std::vector<std::string_view> outputs() const override { return {kImageFeatures}; }
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override;
  std::vector<const Parameter*> parameters() const override;
  std::string_view name() const override { return "image_projector"; }

 private:
  /// Of the tower's rows of `of` [T, width] those that are kept, and of the projector's input
  /// [images · kept, inputs · width] the columns of input `index`: both as [images, kept, width].
  Tensor kept_rows(const Tensor& of) const;
  Tensor columns_of(const Tensor& joined, size_t index) const;

  ImageProjectorParts parts_;
};

}  // namespace viaduct
