#include "nn/moe/gather_dispatch.h"

#include <optional>

#include "nn/moe/gathered_rows.h"
#include "nn/moe/row_factors.h"
#include "nn/moe/taken_rows.h"
#include "ops/embedding.h"
#include "ops/expert_rows.h"

namespace viaduct {

Edge GatherDispatchSegment::inputs(const RankContext& context, const Batch& batch) const {
  const MoeEdges edges(context, batch, moe_, place_, hidden_);
  return {edges.tokens(), edges.probabilities(), edges.choice()};
}

std::vector<std::string_view> GatherDispatchSegment::outputs() const {
  std::vector<std::string_view> list{moe_edge::rows,          moe_edge::row_factors,
                                     moe_edge::offsets,       moe_edge::position,
                                     moe_edge::probabilities, moe_edge::row_count};
  if (moe_.row_indices) list.push_back(moe_edge::row_index);
  return list;
}

TensorSet GatherDispatchSegment::forward(RankContext& context, const Batch& batch,
                                         const TensorSet& in, SavedStore& saved) {
  const MemoryTag tag = saved.output_tag();
  // The order of rows needs only the choices: it is made while the others are in transit.
  PendingTokens choices = gather_tokens(context, place_, in.get(moe_edge::choice));
  PendingTokens tokens = gather_tokens(context, place_, in.get(moe_edge::tokens));
  PendingTokens weights = gather_tokens(context, place_, in.get(moe_edge::probabilities), tag);
  std::optional<PendingTokens> indices;
  if (moe_.row_indices) indices = gather_tokens(context, place_, own_indices(batch));
  const OwnRows own = find_own_rows(context, moe_, place_, choices.finish(), tag);
  const Tensor rows = context.activation({own.tokens.dim(0), hidden_}, tag);  // [A, H]
  embedding_forward(context.ops, {own.tokens, tokens.finish(), rows});
  Tensor row_index;
  if (indices) row_index = take_rows(context, indices->finish(), own.tokens, tag);
  saved.keep(this, "position", own.position);
  const Tensor all_weights = weights.finish();  // [n · T, k]
  saved.keep(this, "probabilities", all_weights);
  TensorSet out(moe_edge::rows, rows);
  out.set(moe_edge::row_factors, no_row_factors(context, tag));
  if (row_index) out.set(moe_edge::row_index, row_index);
  out.set(moe_edge::offsets, own.offsets);
  out.set(moe_edge::position, own.position);
  out.set(moe_edge::probabilities, all_weights);
  out.set(moe_edge::row_count, row_count_of(rows.dim(0)));
  return out;
}

TensorSet GatherDispatchSegment::backward_input(RankContext& context, const Batch& batch,
                                                const TensorSet& d_out, SavedStore& saved) {
  CombineRowsArgs sum;
  sum.rows = d_out.get(moe_edge::rows);  // [A, H]
  sum.position = saved.take(this, "position");
  // Each choice has its gradient on the ranks of its expert, and 0 on others. Held until it is
  // summed: [n · T, k].
  const Tensor own_weights = weight_gradient(context, d_out.get(moe_edge::row_factors),
                                             sum.position, saved.take(this, "probabilities"), 1);
  PendingTokens d_weights = sum_over_ranks(context, place_, own_weights);  // [T, k]
  sum.out =
      context.activation({place_.ranks * batch.stream_tokens, hidden_}, MemoryTag::activations);
  combine_rows(context.ops, sum);
  PendingTokens d_tokens = sum_over_ranks(context, place_, sum.out);  // [T, H]
  TensorSet d_in(moe_edge::probabilities, d_weights.finish());
  d_in.set(moe_edge::tokens, d_tokens.finish());
  return d_in;
}

}  // namespace viaduct
