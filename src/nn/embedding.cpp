#include "nn/embedding.h"

#include <algorithm>

#include "nn/tensor_exchange.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"

namespace viaduct {

int64_t EmbeddingSegment::first_row(const RankContext& context) const {
  return context.groups.tp().rank() * parts_.tokens->shape[0];
}

TensorSet EmbeddingSegment::forward(RankContext& context, const Batch& batch, const TensorSet&,
                                    SavedStore& saved) {
  Tensor out = context.stream({batch.tokens(), parts_.tokens->shape[1]});
  {
    const AcquiredWeight table(context.weights, *parts_.tokens, WeightUse::lookup);
    // out [T, H] = scale · tokens [V, H] at the ids; 0 where another rank has the row
    embedding_forward(context.ops, {batch.ids, table.tensor(), out, first_row(context),
                                    parts_.scale, WriteMode::assign});
  }
  out = reduce_to_stream(context, out, MemoryTag::saved);
  if (parts_.positions) {
    const AcquiredWeight table(context.weights, *parts_.positions, WeightUse::lookup);
    // out [T, H] += positions [P, H] at each token's position
    embedding_forward(context.ops, {batch.stream_rows(batch.positions), table.tensor(), out,
                                    -parts_.rows_before_positions, 1, WriteMode::accumulate});
  }
  if (parts_.norm) out = normed(context, out, saved);
  return TensorSet(kHidden, parts_.dropout.forward(context, batch, out, Tensor()));
}

Tensor EmbeddingSegment::normed(RankContext& context, const Tensor& sum, SavedStore& saved) const {
  SavedStore nothing(false);
  const Tensor y = parts_.norm->forward(context, sum, trains() ? saved : nothing);
  if (y.dtype() == context.settings.precision.stream) return y;
  const Tensor out = context.stream(y.shape());
  copy(context.ops, {y, out});
  return out;
}

TensorSet EmbeddingSegment::backward_input(RankContext& context, const Batch& batch,
                                           const TensorSet& d_out, SavedStore& saved) {
  if (!trains()) return {};
  const DType stream = context.settings.precision.stream;
  Tensor d_rows =
      parts_.dropout.backward(context, batch, d_out.get(kHidden),
                              parts_.norm ? context.settings.precision.activation : stream);
  if (parts_.norm) {
    const Tensor d_sum = context.stream(d_rows.shape(), MemoryTag::activations);
    parts_.norm->backward(context, d_rows, Tensor(), d_sum, saved);
    d_rows = d_sum;
  }
  saved.keep(this, "d_out", d_rows);
  return {};
}

void EmbeddingSegment::backward_weight(RankContext& context, const Batch& batch,
                                       SavedStore& saved) {
  if (!trains()) return;
  const Tensor d_out = saved.take(this, "d_out");
  if (parts_.tokens->trained) {
    const auto tokens = context.gradients->gradient(*parts_.tokens);
    // dW [V, H] (= or +=) the sum of scale · d_out over the tokens of an id
    embedding_backward(context.ops,
                       {batch.ids, gather_stream(context, d_out), tokens.tensor, first_row(context),
                        parts_.scale, tokens.mode, parts_.padding});
    context.gradients->done(*parts_.tokens);
  }
  if (!parts_.positions || !parts_.positions->trained) return;
  const auto positions = context.gradients->gradient(*parts_.positions);
  // dW [P, H] (= or +=) the sum of d_out over the tokens of a position
  embedding_backward(context.ops, {batch.stream_rows(batch.positions), d_out, positions.tensor,
                                   -parts_.rows_before_positions, 1, positions.mode});
  context.gradients->done(*parts_.positions);
}

std::vector<const Parameter*> EmbeddingSegment::parameters() const {
  std::vector<const Parameter*> list{parts_.tokens.get()};
  if (parts_.positions) list.push_back(parts_.positions.get());
  if (parts_.norm) parts_.norm->append_parameters(list);
  return list;
}

std::vector<const Parameter*> EmbeddingSegment::read_backward() const {
  std::vector<const Parameter*> list;
  if (parts_.norm) parts_.norm->append_parameters(list);
  return list;
}

bool EmbeddingSegment::trains() const {
  const std::vector<const Parameter*> all = parameters();
  return std::ranges::any_of(all, &Parameter::trained);
}

}  // namespace viaduct
