#include "nn/moe/expert_exchange.h"

#include "ops/elementwise.h"
#include "ops/expert_rows.h"

namespace viaduct {

Edge DispatchExchange::inputs(const RankContext& context, const Batch& batch) const {
  const MoeEdges edges(context, batch, moe_, place_, hidden_);
  if (place_.by_domain()) return {edges.tokens(), edges.probabilities(), edges.choice()};
  return {edges.tokens(),   edges.probabilities(), edges.sources(),
          edges.position(), edges.counts(),        edges.sent_offsets()};
}

std::vector<std::string_view> DispatchExchange::outputs() const {
  std::vector<std::string_view> list{
      moe_edge::rows,          moe_edge::row_factors, moe_edge::offsets,  moe_edge::position,
      moe_edge::probabilities, moe_edge::row_count,   moe_edge::exchange, moe_edge::arrival};
  if (place_.by_domain()) {
    for (const std::string_view name :
         {moe_edge::domain_exchange, moe_edge::domain_tokens, moe_edge::domain_position})
      list.push_back(name);
  }
  if (moe_.row_indices) list.push_back(moe_edge::row_index);
  if (beside_) list.push_back(moe_edge::shared);
  return list;
}

void DispatchExchange::run_beside(RankContext& context, const Batch& batch, const Tensor& tokens,
                                  SavedStore& saved, TensorSet& out) const {
  if (!beside_) return;
  const TensorSet made =
      beside_->forward(context, batch, TensorSet(moe_edge::tokens, tokens), saved);
  if (made.has(moe_edge::shared)) out.set(moe_edge::shared, made.get(moe_edge::shared));
}

void DispatchExchange::backward_weight(RankContext& context, const Batch& batch,
                                       SavedStore& saved) {
  if (beside_) beside_->backward_weight(context, batch, saved);
}

std::vector<const Parameter*> DispatchExchange::parameters() const {
  return beside_ ? beside_->parameters() : std::vector<const Parameter*>();
}

std::vector<std::string_view> CombineExchange::read_for_outputs() const {
  return {kHidden, moe_edge::results, moe_edge::shared};
}

void CombineExchange::keep_sum(const TensorSet& in, SavedStore& saved) const {
  saved.keep(this, "row count", in.get(moe_edge::row_count));
  saved.keep(this, "position", in.get(moe_edge::position));
  saved.keep(this, "probabilities", in.get(moe_edge::probabilities));
}

Tensor CombineExchange::sum_results(RankContext& context, const TensorSet& in,
                                    const Tensor& results, int64_t copies) const {
  CombineRowsArgs sum;
  sum.rows = results;
  sum.position = in.get(moe_edge::position);
  sum.weight = in.get(moe_edge::probabilities);
  sum.copies = copies;
  sum.out = context.activation({sum.position.dim(0), hidden_}, MemoryTag::activations);
  combine_rows(context.ops, sum);
  return sum.out;
}

Tensor CombineExchange::spread_gradient(RankContext& context, const Tensor& d_out, int64_t copies,
                                        SavedStore& saved) const {
  const Tensor row_count = saved.take(this, "row count");
  CombineRowsBackwardArgs spread;
  spread.d_out = d_out;
  spread.position = saved.take(this, "position");
  spread.weight = saved.take(this, "probabilities");
  spread.d_rows = context.activation({*row_count.data<int64_t>(), hidden_}, MemoryTag::activations);
  spread.copies = copies;
  // Rows of dropped choices and of padding have no gradient.
  if (moe_.drops() || moe_.rows_multiple > 1) fill(context.ops, {spread.d_rows, 0});
  combine_rows_backward(context.ops, spread);
  return spread.d_rows;
}

Edge CombineExchange::inputs(const RankContext& context, const Batch& batch) const {
  const MoeEdges edges(context, batch, moe_, place_, hidden_);
  Edge edge{stream_edge(context, batch, hidden_), edges.combined_probabilities(), edges.position(),
            edges.results(), edges.row_count()};
  if (!place_.gathers(moe_)) {
    edge.push_back(edges.exchange());
    edge.push_back(edges.arrival());
  }
  if (place_.by_domain()) {
    edge.push_back(edges.domain_exchange());
    edge.push_back(edges.domain_tokens());
    edge.push_back(edges.domain_position());
  }
  if (moe_.shared_feed_forward > 0) edge.push_back(edges.shared());
  return edge;
}

}  // namespace viaduct
