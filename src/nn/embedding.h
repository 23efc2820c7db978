#pragma once
// The first segment: token embedding (scaled where the model says), learned positions, dropout.
// Each tensor rank looks up the rows of the vocabulary that it holds; their sum is the stream.

#include "nn/residual.h"
#include "nn/segment.h"

namespace viaduct {

class EmbeddingSegment final : public Segment {
 public:
  /// `positions` may be null (rotary models). `scale` multiplies the token rows. Looking up
  /// `padding` (-1: none) gives no gradient.
  EmbeddingSegment(std::shared_ptr<const Parameter> tokens,
                   std::shared_ptr<const Parameter> positions, double scale,
                   ResidualDropout dropout, int64_t padding = -1);

  Edge inputs(const RankContext&, const Batch&) const override { return {}; }
  std::vector<std::string_view> outputs() const override { return {kHidden}; }
  /// `in` is empty: the ids come with the batch.
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  /// Returns an empty set.
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override;
  std::vector<const Parameter*> parameters() const override;
  std::vector<const Parameter*> read_backward() const override { return {}; }
  std::string_view name() const override { return "embedding"; }

 private:
  bool trains() const { return tokens_->trained || (positions_ && positions_->trained); }
  /// The token of the first row of the table here.
  int64_t first_row(const RankContext& context) const;

  std::shared_ptr<const Parameter> tokens_, positions_;
  double scale_;
  ResidualDropout dropout_;
  int64_t padding_;
};

}  // namespace viaduct
