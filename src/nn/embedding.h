#pragma once
// The first segment: token embedding (scaled where the model says), learned positions, a norm,
// dropout. Each tensor rank looks up the rows of the vocabulary that it holds; their sum is the
// stream. In a model with images their features stand in place of the tokens of images.

#include <optional>

#include "nn/norm.h"
#include "nn/residual.h"
#include "nn/segment.h"

namespace viaduct {

struct EmbeddingParts {
  std::shared_ptr<const Parameter> tokens;     // [V, H], the rows that this tensor rank holds
  std::shared_ptr<const Parameter> positions;  // [P, H]; null: none (rotary models)
  int64_t rows_before_positions = 0;           // of that table, before the row of position 0
  double scale = 1;                            // of the token rows
  std::optional<Norm> norm;                    // of the sum (Bloom)
  ResidualDropout dropout;
  int64_t padding = -1;        // the token whose look-up gives no gradient; -1: none
  bool images = false;         // it reads features of images (nn/image_projector.h) …
  bool image_gradient = true;  // … and these have a gradient
};

class EmbeddingSegment final : public Segment {
 public:
  explicit EmbeddingSegment(EmbeddingParts parts) : parts_(std::move(parts)) {}

  /// The features of images, or nothing: the ids come with the batch.
  Edge inputs(const RankContext&, const Batch&) const override;
  std::vector<std::string_view> outputs() const override { return {kHidden}; }
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  /// The gradient of the features, or an empty set.
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override;
  std::vector<const Parameter*> parameters() const override;
  std::vector<const Parameter*> read_backward() const override;
  std::string_view name() const override { return "embedding"; }

 private:
  bool trains() const;
  bool has_image_gradient() const { return parts_.images && parts_.image_gradient; }
  /// The gradient [rows, H] of the features from that of the stream's rows, in the activation
  /// format.
  Tensor image_gradient(RankContext& context, const Batch& batch, const Tensor& d_rows) const;
  /// The norm of the sum, in the stream's format; its statistics are kept if anything here trains.
  Tensor normed(RankContext& context, const Tensor& sum, SavedStore& saved) const;
  /// The token of the first row of the table here.
  int64_t first_row(const RankContext& context) const;

  EmbeddingParts parts_;
};

}  // namespace viaduct
