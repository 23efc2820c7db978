#include "nn/moe/expert_exchange.h"

namespace viaduct {

Edge DispatchExchange::inputs(const RankContext& context, const Batch& batch) const {
  const MoeEdges edges(context, batch, moe_, place_, hidden_);
  if (place_.by_domain()) return {edges.tokens(), edges.probabilities(), edges.choice()};
  return {edges.tokens(), edges.sources(), edges.position(), edges.counts(), edges.sent_offsets()};
}

std::vector<std::string_view> DispatchExchange::outputs() const {
  std::vector<std::string_view> list{moe_edge::rows, moe_edge::offsets, moe_edge::position,
                                     moe_edge::exchange, moe_edge::arrival};
  if (place_.by_domain()) {
    for (const std::string_view name : {moe_edge::probabilities, moe_edge::domain_exchange,
                                        moe_edge::domain_tokens, moe_edge::domain_position})
      list.push_back(name);
  }
  if (beside_) list.push_back(moe_edge::shared);
  return list;
}

void DispatchExchange::backward_weight(RankContext& context, const Batch& batch,
                                       SavedStore& saved) {
  if (beside_) beside_->backward_weight(context, batch, saved);
}

std::vector<const Parameter*> DispatchExchange::parameters() const {
  return beside_ ? beside_->parameters() : std::vector<const Parameter*>();
}

Edge CombineExchange::inputs(const RankContext& context, const Batch& batch) const {
  const MoeEdges edges(context, batch, moe_, place_, hidden_);
  Edge edge{stream_edge(context, batch, hidden_), edges.combined_probabilities(), edges.position(),
            edges.results()};
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
