#include "nn/patch_embedding.h"

#include <algorithm>

#include "nn/product.h"
#include "nn/weight_gradient.h"
#include "ops/bias.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"

namespace viaduct {
namespace {

Tensor as_row(const Tensor& vector) {
  return vector.view({1, vector.dim(0)});
}

/// `x` itself where it has the format.
Tensor in_format(RankContext& context, const Tensor& x, DType format) {
  if (x.dtype() == format) return x;
  const Tensor out = context.ops.allocate(format, x.shape(), MemoryTag::activations);
  copy(context.ops, {x, out});
  return out;
}

}  // namespace

Tensor PatchEmbeddingSegment::patch_rows(const Tensor& tokens) const {
  const int64_t of_image = tokens_of_image();
  return tokens.view({tokens.dim(0) / of_image, of_image, tokens.dim(1)})
      .slice(1, leading(), of_image - leading());
}

bool PatchEmbeddingSegment::trains() const {
  const std::vector<const Parameter*> all = parameters();
  return std::ranges::any_of(all, &Parameter::trained);
}

TensorSet PatchEmbeddingSegment::forward(RankContext& context, const Batch& batch, const TensorSet&,
                                         SavedStore& saved) {
  const int64_t width = parts_.patches->shape[0];
  const Tensor out = context.stream({batch.tokens(), width});
  fill(context.ops, {out, 0});
  if (batch.patches.dim(0) > 0) {
    const Tensor x = context.activation(batch.patches.shape());
    copy(context.ops, {batch.patches, x});
    const AcquiredWeight weight(context.weights, *parts_.patches, WeightUse::elementwise);
    GemmArgs product;  // y [images · patches, H] = x · Wᵀ
    product.a = x;
    product.b = weight.tensor();
    product.c = context.activation({x.dim(0), width}, MemoryTag::activations);
    run_product(context.ops, product);
    if (parts_.bias) {
      const AcquiredWeight bias(context.weights, *parts_.bias, WeightUse::elementwise);
      bias_add(context.ops, {product.c, bias.tensor(), product.c});
    }
    const Tensor rows = patch_rows(out);
    copy(context.ops, {product.c.view(rows.shape()), rows});
    if (parts_.patches->trained) saved.keep(this, "x", x);
  }
  if (parts_.class_token) {
    const AcquiredWeight token(context.weights, *parts_.class_token, WeightUse::elementwise);
    // out [T, H] += the token's row where the id is 0
    embedding_forward(context.ops,
                      {batch.ids, as_row(token.tensor()), out, 0, 1, WriteMode::accumulate});
  }
  {
    const AcquiredWeight table(context.weights, *parts_.positions, WeightUse::lookup);
    embedding_forward(context.ops,
                      {batch.positions, table.tensor(), out, 0, 1, WriteMode::accumulate});
  }
  if (!parts_.norm) return TensorSet(kHidden, out);
  SavedStore nothing(false);
  const Tensor y = parts_.norm->forward(context, out, trains() ? saved : nothing);
  return TensorSet(kHidden, in_format(context, y, context.settings.precision.stream));
}

TensorSet PatchEmbeddingSegment::backward_input(RankContext& context, const Batch& batch,
                                                const TensorSet& d_out, SavedStore& saved) {
  if (!trains()) return {};
  Tensor d_rows = d_out.get(kHidden);  // [T, H]
  if (parts_.norm) {
    const Tensor d_sum = context.stream(d_rows.shape(), MemoryTag::activations);
    parts_.norm->backward(context,
                          in_format(context, d_rows, context.settings.precision.activation),
                          Tensor(), d_sum, saved);
    d_rows = d_sum;
  }
  saved.keep(this, "d_out", d_rows);
  if (!parts_.bias || !parts_.bias->trained) return {};
  const auto gradient = context.gradients->gradient(*parts_.bias);  // [H], +=
  if (batch.patches.dim(0) > 0) {
    const Tensor d_patches = context.activation({batch.patches.dim(0), d_rows.dim(1)});
    const Tensor rows = patch_rows(d_rows);
    copy(context.ops, {rows, d_patches.view(rows.shape())});
    column_sum(context.ops, {d_patches, gradient.tensor, gradient.mode});
  }
  context.gradients->done(*parts_.bias);
  return {};
}

void PatchEmbeddingSegment::backward_weight(RankContext& context, const Batch& batch,
                                            SavedStore& saved) {
  if (!trains()) return;
  const Tensor d_out = saved.take(this, "d_out");  // [T, H]
  const auto look_up = [&](const Parameter& table, const Tensor& ids) {
    if (!table.trained) return;
    const auto gradient = context.gradients->gradient(table);
    const Tensor& to = gradient.tensor;
    // dW (= or +=) the sum of d_out over the tokens of an id
    embedding_backward(context.ops,
                       {ids, d_out, to.rank() == 1 ? as_row(to) : to, 0, 1, gradient.mode});
    context.gradients->done(table);
  };
  look_up(*parts_.positions, batch.positions);
  if (parts_.class_token) look_up(*parts_.class_token, batch.ids);
  if (!parts_.patches->trained) return;
  const int64_t patches = batch.patches.dim(0);
  const Tensor d_patches = context.activation({patches, d_out.dim(1)}, MemoryTag::activations);
  Tensor x = d_patches;
  if (patches > 0) {
    x = saved.take(this, "x");
    const Tensor rows = patch_rows(d_out);
    copy(context.ops, {rows, d_patches.view(rows.shape())});
  } else {
    x = context.activation(batch.patches.shape(), MemoryTag::activations);
  }
  // dW [H, channels · side²] (= or +=) d_patchesᵀ · x; of no patches: zero
  make_weight_gradient(context, d_patches, x, context.gradients->product_gradient(*parts_.patches));
  context.gradients->done(*parts_.patches);
}

std::vector<const Parameter*> PatchEmbeddingSegment::parameters() const {
  std::vector<const Parameter*> list{parts_.patches.get()};
  if (parts_.bias) list.push_back(parts_.bias.get());
  if (parts_.class_token) list.push_back(parts_.class_token.get());
  list.push_back(parts_.positions.get());
  if (parts_.norm) parts_.norm->append_parameters(list);
  return list;
}

std::vector<const Parameter*> PatchEmbeddingSegment::read_backward() const {
  std::vector<const Parameter*> list;
  if (parts_.norm) parts_.norm->append_parameters(list);
  return list;
}

}  // namespace viaduct
