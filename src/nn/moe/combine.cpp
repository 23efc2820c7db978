#include "nn/moe/combine.h"

#include "nn/moe/gathered_rows.h"
#include "nn/moe/token_exchange.h"
#include "ops/elementwise.h"
#include "ops/expert_rows.h"

namespace viaduct {

Edge CombineSegment::inputs(const RankContext& context, const Batch& batch) const {
  const MoeEdges edges(context, batch, moe_, place_, hidden_);
  Edge edge{stream_edge(context, batch, hidden_), edges.combined_probabilities(), edges.position(),
            edges.results()};
  if (!place_.gathers(moe_)) {
    edge.push_back(edges.exchange());
    edge.push_back(edges.arrival());
  }
  if (moe_.shared_feed_forward > 0) edge.push_back(edges.shared());
  return edge;
}

Tensor CombineSegment::sum_rows(RankContext& context, const Batch& batch, const TensorSet& in,
                                SavedStore& saved) const {
  const bool gathers = place_.gathers(moe_);
  CombineRowsArgs sum;
  sum.rows = in.get(moe_edge::results);
  if (!gathers) {
    const ExchangeOrder order{in.get(moe_edge::exchange), in.get(moe_edge::arrival)};
    sum.rows = send_home(context, place_, order, sum.rows, saved.tag());  // [R, H]
    sum.copies = place_.copies;
    saved.keep(this, "exchange", order.rows);
    saved.keep(this, "arrival", order.arrival);
  }
  sum.position = in.get(moe_edge::position);
  sum.weight = in.get(moe_edge::probabilities);
  const int64_t senders = gathers ? place_.ranks : 1;
  sum.out = context.activation({senders * batch.stream_tokens, hidden_}, MemoryTag::activations);
  combine_rows(context.ops, sum);
  saved.keep(this, "rows", sum.rows);
  saved.keep(this, "position", sum.position);
  saved.keep(this, "probabilities", sum.weight);
  return gathers ? sum_over_ranks(context, place_, sum.out).finish() : sum.out;
}

TensorSet CombineSegment::forward(RankContext& context, const Batch& batch, const TensorSet& in,
                                  SavedStore& saved) {
  const Tensor sum = sum_rows(context, batch, in, saved);  // [T, H]
  if (moe_.shared_feed_forward > 0) add(context.ops, {sum, in.get(moe_edge::shared), sum});
  return TensorSet(kHidden,
                   residual_.forward(context, batch, sum, in.get(kHidden), saved.output_tag()));
}

TensorSet CombineSegment::backward_input(RankContext& context, const Batch& batch,
                                         const TensorSet& d_out, SavedStore& saved) {
  const Tensor d_stream = d_out.get(kHidden);
  const Tensor d_branch =  // [T, H]
      residual_.backward(context, batch, d_stream, context.settings.precision.activation);
  const bool gathers = place_.gathers(moe_);
  CombineRowsBackwardArgs spread;
  spread.d_out = gathers ? gather_tokens(context, place_, d_branch).finish() : d_branch;
  spread.rows = saved.take(this, "rows");
  spread.position = saved.take(this, "position");
  spread.weight = saved.take(this, "probabilities");
  spread.d_rows = context.activation(spread.rows.shape(), MemoryTag::activations);
  spread.d_weight = context.statistic(spread.weight.shape(), MemoryTag::activations);
  spread.copies = gathers ? 1 : place_.copies;
  // Rows of dropped choices and of padding have no gradient.
  if (moe_.capacity_factor > 0) fill(context.ops, {spread.d_rows, 0});
  combine_rows_backward(context.ops, spread);
  TensorSet d_in(kHidden, d_stream);
  d_in.set(moe_edge::probabilities, spread.d_weight);
  Tensor d_results = spread.d_rows;
  if (!gathers) {
    const ExchangeOrder order{saved.take(this, "exchange"), saved.take(this, "arrival")};
    d_results = send_to_experts(context, place_, order, d_results, MemoryTag::activations);
  }
  d_in.set(moe_edge::results, d_results);
  if (moe_.shared_feed_forward > 0) d_in.set(moe_edge::shared, d_branch);
  return d_in;
}

}  // namespace viaduct
