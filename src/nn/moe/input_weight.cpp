#include "nn/moe/input_weight.h"

#include "ops/elementwise.h"
#include "ops/expert_rows.h"

namespace viaduct {
namespace {

/// i32 [T, 1]: 0, 1, …, the rows of tokens in their order: those of an only expert.
Tensor own_rows(RankContext& context, const Tensor& weight, MemoryTag tag) {
  const int64_t tokens = weight.dim(0);
  const auto scratch = [&](DType dtype, const Shape& shape) {
    return context.ops.allocate(dtype, shape, MemoryTag::activations);
  };
  const Tensor choice = scratch(DType::i32, {tokens, 1});
  route(context.ops, {{.score = ScoreFunction::sigmoid, .topk = 1, .normalize = false},
                      weight,
                      Tensor(),
                      scratch(weight.dtype(), {tokens, 1}),
                      choice});
  const Tensor position = context.ops.allocate(DType::i32, {tokens, 1}, tag);
  sort_by_expert(context.ops, {choice, 1, 1, scratch(DType::i32, {tokens}), position,
                               scratch(DType::i64, {1}), scratch(DType::i32, {2})});
  return position;
}

}  // namespace

Edge InputWeightSegment::inputs(const RankContext& context, const Batch& batch) const {
  const MoeEdges edges(context, batch, moe_, place_, hidden_);
  return {edges.tokens(), edges.probabilities()};
}

TensorSet InputWeightSegment::forward(RankContext& context, const Batch&, const TensorSet& in,
                                      SavedStore& saved) {
  CombineRowsArgs product;
  product.rows = in.get(moe_edge::tokens);
  product.weight = in.get(moe_edge::probabilities);
  product.position = own_rows(context, product.weight, saved.statistic_tag());
  saved.keep(this, "tokens", product.rows);
  saved.keep(this, "weight", product.weight);
  saved.keep_statistic(this, "position", product.position);
  if (!saved.output_is_read()) return {};
  product.out = context.activation(product.rows.shape(), saved.output_tag());
  combine_rows(context.ops, product);
  const Tensor ones = context.statistic(product.weight.shape(), saved.output_tag());
  fill(context.ops, {ones, 1});
  TensorSet out(moe_edge::tokens, product.out);
  out.set(moe_edge::probabilities, ones);
  return out;
}

TensorSet InputWeightSegment::backward_input(RankContext& context, const Batch&,
                                             const TensorSet& d_out, SavedStore& saved) {
  CombineRowsArgs product;
  product.rows = d_out.get(moe_edge::tokens);  // [T, H], of the weighted tokens
  product.weight = saved.take(this, "weight");
  product.position = saved.take(this, "position");
  product.out = context.activation(product.rows.shape(), MemoryTag::activations);
  combine_rows(context.ops, product);
  const Tensor d_weight = context.statistic(product.weight.shape(), MemoryTag::activations);
  row_dots(context.ops, {product.rows, saved.take(this, "tokens"), d_weight});
  TensorSet d_in(moe_edge::tokens, product.out);
  d_in.set(moe_edge::probabilities, d_weight);
  return d_in;
}

}  // namespace viaduct
