#include "nn/pooled_projector.h"

#include "nn/image_projector.h"
#include "ops/elementwise.h"

namespace viaduct {

Edge PooledProjectorSegment::inputs(const RankContext& context, const Batch& batch) const {
  EdgeTensor tensor = stream_edge(context, batch, parts_.tower_norm.features());
  tensor.name = parts_.input;
  tensor.needs_gradient = parts_.input_gradient;
  return {tensor};
}

std::vector<std::string_view> PooledProjectorSegment::outputs() const {
  return {kImageFeatures};
}

Tensor PooledProjectorSegment::patches_at(const Tensor& patches, int64_t images, int64_t y,
                                          int64_t x) const {
  const int64_t rows = images * parts_.pooled, width = patches.dim(1);
  // [rows of squares, y, squares of a row, x, width], of which y and x are taken
  return patches.view({rows, side(), parts_.pooled, side(), width})
      .transposed(0, 1)
      .select(y)
      .transposed(0, 2)
      .select(x)
      .transposed(0, 1);
}

TensorSet PooledProjectorSegment::forward(RankContext& context, const Batch& batch,
                                          const TensorSet& in, SavedStore& saved) {
  const int64_t images = batch.tokens() / (parts_.across * parts_.across),
                rows = images * parts_.pooled, width = parts_.tower_norm.features();
  const Tensor normed = parts_.tower_norm.forward(context, in.get(parts_.input), saved);
  const Tensor sum = context.statistic({rows, parts_.pooled, width}, MemoryTag::activations);
  fill(context.ops, {sum, 0});
  for (int64_t y = 0; y < side() && rows > 0; ++y) {
    for (int64_t x = 0; x < side(); ++x)
      copy(context.ops, {patches_at(normed, images, y, x), sum, WriteMode::accumulate});
  }
  const Tensor pooled = context.activation({rows * parts_.pooled, width});
  scale(context.ops,
        {sum.view(pooled.shape()), pooled, 1.0 / static_cast<double>(side() * side())});
  const Tensor x = parts_.pooled_norm.forward(context, pooled, saved);
  return TensorSet(kImageFeatures, parts_.projection.forward(context, x, saved));
}

TensorSet PooledProjectorSegment::backward_input(RankContext& context, const Batch& batch,
                                                 const TensorSet& d_out, SavedStore& saved) {
  const int64_t images = batch.tokens() / (parts_.across * parts_.across),
                rows = images * parts_.pooled, width = parts_.tower_norm.features();
  const Tensor d_x = parts_.projection.backward_input(context, d_out.get(kImageFeatures), saved);
  const Tensor d_pooled = context.activation(d_x.shape(), MemoryTag::activations);
  parts_.pooled_norm.backward(context, d_x, Tensor(), d_pooled, saved);
  const Tensor share = context.activation(d_x.shape(), MemoryTag::activations);
  scale(context.ops, {d_pooled, share, 1.0 / static_cast<double>(side() * side())});
  const Tensor d_normed = context.activation({batch.tokens(), width}, MemoryTag::activations);
  for (int64_t y = 0; y < side() && rows > 0; ++y) {
    for (int64_t x = 0; x < side(); ++x)
      copy(context.ops,
           {share.view({rows, parts_.pooled, width}), patches_at(d_normed, images, y, x)});
  }
  // The norm of the tower is part of it: it has its gradient even where nothing goes further.
  const Tensor d_in = context.stream(d_normed.shape(), MemoryTag::activations);
  parts_.tower_norm.backward(context, d_normed, Tensor(), d_in, saved);
  return parts_.input_gradient ? TensorSet(parts_.input, d_in) : TensorSet();
}

void PooledProjectorSegment::backward_weight(RankContext& context, const Batch&,
                                             SavedStore& saved) {
  parts_.projection.backward_weight(context, saved);
}

std::vector<const Parameter*> PooledProjectorSegment::parameters() const {
  std::vector<const Parameter*> list;
  parts_.tower_norm.append_parameters(list);
  parts_.pooled_norm.append_parameters(list);
  parts_.projection.append_parameters(list);
  return list;
}

}  // namespace viaduct
