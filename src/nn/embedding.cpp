#include "nn/embedding.h"

#include "ops/embedding.h"

namespace viaduct {

EmbeddingSegment::EmbeddingSegment(std::shared_ptr<const Parameter> tokens,
                                   std::shared_ptr<const Parameter> positions, double scale,
                                   ResidualDropout dropout, int64_t padding)
    : tokens_(std::move(tokens)),
      positions_(std::move(positions)),
      scale_(scale),
      dropout_(dropout),
      padding_(padding) {}

TensorSet EmbeddingSegment::forward(RankContext& context, const Batch& batch, const TensorSet&,
                                    SavedStore&) {
  const Tensor out = context.activation({batch.tokens(), tokens_->shape[1]});
  {
    const AcquiredWeight table(context.weights, *tokens_, WeightUse::lookup);
    embedding_forward(context.ops, {batch.ids, table.tensor(), out, 0, scale_, WriteMode::assign});
  }
  if (positions_) {
    const AcquiredWeight table(context.weights, *positions_, WeightUse::lookup);
    embedding_forward(context.ops,
                      {batch.positions, table.tensor(), out, 0, 1, WriteMode::accumulate});
  }
  return TensorSet(kHidden, dropout_.forward(context, batch, out, Tensor()));
}

TensorSet EmbeddingSegment::backward_input(RankContext& context, const Batch& batch,
                                           const TensorSet& d_out, SavedStore& saved) {
  saved.keep(this, "d_out", dropout_.backward(context, batch, d_out.get(kHidden)));
  return {};
}

void EmbeddingSegment::backward_weight(RankContext& context, const Batch& batch,
                                       SavedStore& saved) {
  const Tensor d_out = saved.take(this, "d_out");
  const auto tokens = context.gradients->gradient(*tokens_);
  embedding_backward(context.ops,
                     {batch.ids, d_out, tokens.tensor, 0, scale_, tokens.mode, padding_});
  context.gradients->done(*tokens_);
  if (!positions_) return;
  const auto positions = context.gradients->gradient(*positions_);
  embedding_backward(context.ops, {batch.positions, d_out, positions.tensor, 0, 1, positions.mode});
  context.gradients->done(*positions_);
}

std::vector<const Parameter*> EmbeddingSegment::parameters() const {
  std::vector<const Parameter*> list{tokens_.get()};
  if (positions_) list.push_back(positions_.get());
  return list;
}

}  // namespace viaduct
