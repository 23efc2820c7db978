#include "nn/embedding.h"

#include <algorithm>

#include "nn/image_projector.h"
#include "nn/tensor_exchange.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"

namespace viaduct {
namespace {

/// Those that are looked up: none at images.
const Tensor& ids_of(const Batch& batch) {
  return batch.images.any() ? batch.images.ids : batch.ids;
}

}  // namespace

Edge EmbeddingSegment::inputs(const RankContext& context, const Batch& batch) const {
  // A pass of generation that begins no image has no features.
  if (!parts_.images || !batch.images.any()) return {};
  EdgeTensor features = image_features_edge(context, batch.images.rows, parts_.tokens->shape[1]);
  features.needs_gradient = parts_.image_gradient;
  return {features};
}

int64_t EmbeddingSegment::first_row(const RankContext& context) const {
  return context.groups.tp().rank() * parts_.tokens->shape[0];
}

TensorSet EmbeddingSegment::forward(RankContext& context, const Batch& batch, const TensorSet& in,
                                    SavedStore& saved) {
  Tensor out = context.stream({batch.tokens(), parts_.tokens->shape[1]});
  {
    const AcquiredWeight table(context.weights, *parts_.tokens, WeightUse::lookup);
    // out [T, H] = scale · tokens [V, H] at the ids; 0 where another rank has the row
    embedding_forward(context.ops, {ids_of(batch), table.tensor(), out, first_row(context),
                                    parts_.scale, WriteMode::assign});
  }
  out = reduce_to_stream(context, out, MemoryTag::saved);
  if (parts_.images && batch.images.rows > 0) {
    // out [T, H] += the row of an image's features, where the look-up gave 0
    embedding_forward(context.ops, {batch.stream_rows(batch.images.features),
                                    in.get(kImageFeatures), out, 0, 1, WriteMode::accumulate});
  }
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
  if (!trains() && !has_image_gradient()) return {};
  const DType stream = context.settings.precision.stream;
  Tensor d_rows =
      parts_.dropout.backward(context, batch, d_out.get(kHidden),
                              parts_.norm ? context.settings.precision.activation : stream);
  if (parts_.norm) {
    const Tensor d_sum = context.stream(d_rows.shape(), MemoryTag::activations);
    parts_.norm->backward(context, d_rows, Tensor(), d_sum, saved);
    d_rows = d_sum;
  }
  if (trains()) saved.keep(this, "d_out", d_rows);
  if (!has_image_gradient()) return {};
  return TensorSet(kImageFeatures, image_gradient(context, batch, d_rows));
}

Tensor EmbeddingSegment::image_gradient(RankContext& context, const Batch& batch,
                                        const Tensor& d_rows) const {
  const Shape shape{batch.images.rows, d_rows.dim(1)};
  const Tensor gradient = context.activation(shape, MemoryTag::activations);
  if (batch.images.rows == 0) return gradient;
  const Tensor sum =
      context.ops.allocate(accumulator_dtype(d_rows.dtype()), shape, MemoryTag::activations);
  // Each row of features stands at one token: this moves its gradient there.
  embedding_backward(context.ops, {batch.images.features, gather_stream(context, d_rows), sum, 0, 1,
                                   WriteMode::assign});
  copy(context.ops, {sum, gradient});
  return gradient;
}

void EmbeddingSegment::backward_weight(RankContext& context, const Batch& batch,
                                       SavedStore& saved) {
  if (!trains()) return;
  const Tensor d_out = saved.take(this, "d_out");
  if (parts_.tokens->trained) {
    const auto tokens = context.gradients->gradient(*parts_.tokens);
    // dW [V, H] (= or +=) the sum of scale · d_out over the tokens of an id
    embedding_backward(context.ops,
                       {ids_of(batch), gather_stream(context, d_out), tokens.tensor,
                        first_row(context), parts_.scale, tokens.mode, parts_.padding});
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
