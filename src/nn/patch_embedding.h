#pragma once
// The first segment of a vision tower: patches of pixels times a matrix (a convolution whose stride
// is its kernel's side; Dosovitskiy et al. 2020, arXiv 2010.11929, section 3.1), a learned token in
// front of each image's patches, learned positions, a norm.

#include <optional>

#include "nn/norm.h"
#include "nn/segment.h"

namespace viaduct {

struct PatchEmbeddingParts {
  std::shared_ptr<const Parameter> patches;      // [H, channels · side²], channels outermost
  std::shared_ptr<const Parameter> bias;         // [H]; null: none
  std::shared_ptr<const Parameter> class_token;  // [H], in front of the patches; null: none
  std::shared_ptr<const Parameter> positions;    // [tokens of an image, H]
  std::optional<Norm> norm;                      // of the sum (CLIP)
};

class PatchEmbeddingSegment final : public Segment {
 public:
  explicit PatchEmbeddingSegment(PatchEmbeddingParts parts) : parts_(std::move(parts)) {}

  Edge inputs(const RankContext&, const Batch&) const override { return {}; }
  std::vector<std::string_view> outputs() const override { return {kHidden}; }
  /// `in` is empty: the pixels come with the batch.
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  /// Returns an empty set.
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override;
  std::vector<const Parameter*> parameters() const override;
  std::vector<const Parameter*> read_backward() const override;
  std::string_view name() const override { return "patch_embedding"; }

 private:
  /// Whether any of its parameters does: else nothing is kept for a backward.
  bool trains() const;
  int64_t tokens_of_image() const { return parts_.positions->shape[0]; }
  int64_t leading() const { return parts_.class_token ? 1 : 0; }
  /// The rows of patches in rows of tokens [images · tokens, H], as [images, patches, H].
  Tensor patch_rows(const Tensor& tokens) const;

  PatchEmbeddingParts parts_;
};

}  // namespace viaduct
