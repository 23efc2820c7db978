#include "nn/embedding.h"

#include "nn/tensor_exchange.h"
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

int64_t EmbeddingSegment::first_row(const RankContext& context) const {
  return context.groups.tp().rank() * tokens_->shape[0];
}

TensorSet EmbeddingSegment::forward(RankContext& context, const Batch& batch, const TensorSet&,
                                    SavedStore&) {
  Tensor out = context.stream({batch.tokens(), tokens_->shape[1]});
  {
    const AcquiredWeight table(context.weights, *tokens_, WeightUse::lookup);
    // out [T, H] = scale · tokens [V, H] at the ids; 0 where another rank has the row
    embedding_forward(context.ops, {batch.ids, table.tensor(), out, first_row(context), scale_,
                                    WriteMode::assign});
  }
  out = reduce_to_stream(context, out, MemoryTag::saved);
  if (positions_) {
    const AcquiredWeight table(context.weights, *positions_, WeightUse::lookup);
    // out [T, H] += positions [P, H] at each token's position
    embedding_forward(context.ops, {batch.stream_rows(batch.positions), table.tensor(), out, 0, 1,
                                    WriteMode::accumulate});
  }
  return TensorSet(kHidden, dropout_.forward(context, batch, out, Tensor()));
}

TensorSet EmbeddingSegment::backward_input(RankContext& context, const Batch& batch,
                                           const TensorSet& d_out, SavedStore& saved) {
  if (!trains()) return {};
  const Tensor d_rows =
      dropout_.backward(context, batch, d_out.get(kHidden), context.settings.precision.stream);
  saved.keep(this, "d_out", d_rows);
  return {};
}

void EmbeddingSegment::backward_weight(RankContext& context, const Batch& batch,
                                       SavedStore& saved) {
  if (!trains()) return;
  const Tensor d_out = saved.take(this, "d_out");
  if (tokens_->trained) {
    const auto tokens = context.gradients->gradient(*tokens_);
    // dW [V, H] (= or +=) the sum of scale · d_out over the tokens of an id
    embedding_backward(context.ops, {batch.ids, gather_stream(context, d_out), tokens.tensor,
                                     first_row(context), scale_, tokens.mode, padding_});
    context.gradients->done(*tokens_);
  }
  if (!positions_ || !positions_->trained) return;
  const auto positions = context.gradients->gradient(*positions_);
  // dW [P, H] (= or +=) the sum of d_out over the tokens of a position
  embedding_backward(context.ops, {batch.stream_rows(batch.positions), d_out, positions.tensor, 0,
                                   1, positions.mode});
  context.gradients->done(*positions_);
}

std::vector<const Parameter*> EmbeddingSegment::parameters() const {
  std::vector<const Parameter*> list{tokens_.get()};
  if (positions_) list.push_back(positions_.get());
  return list;
}

}  // namespace viaduct
