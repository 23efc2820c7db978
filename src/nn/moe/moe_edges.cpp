#include "nn/moe/moe_edges.h"

#include <algorithm>

namespace viaduct {

ExpertPlace ExpertPlace::inside_domain() const {
  ExpertPlace here = *this;
  here.ranks = ranks / domains;
  here.inside = true;
  return here;
}

Communicator& ExpertPlace::across_domains(const RankContext& context) const {
  return *context.groups.of(GroupKind::ep_outer);
}

Communicator& ExpertPlace::group(const RankContext& context) const {
  if (inside) return *context.groups.of(GroupKind::expert_tp_ep_inner);
  return *context.groups.of(own_grid ? GroupKind::expert_tp_ep : GroupKind::tp);
}

EdgeTensor MoeEdges::integers(std::string_view name, DType dtype, const Shape& shape) const {
  return {std::string(name), dtype, shape, false};
}

EdgeTensor MoeEdges::on_host(EdgeTensor tensor) {
  tensor.on_host = true;
  return tensor;
}

EdgeTensor MoeEdges::activations(std::string_view name, int64_t rows) const {
  Shape shape{0, hidden_};
  shape[0] = rows;
  return {std::string(name), context_.settings.precision.activation, shape};
}

int64_t sent_rows(const MoeConfig& moe, const ExpertPlace& place, int64_t tokens) {
  const int64_t destinations = moe.experts * place.copies;
  if (moe.pad_to_capacity) return destinations * moe.padded(moe.capacity(tokens));
  return chosen_rows(moe, place, tokens) + destinations * (moe.rows_multiple - 1);
}

int64_t chosen_rows(const MoeConfig& moe, const ExpertPlace& place, int64_t tokens) {
  return tokens * moe.routing.topk * place.copies;
}

int64_t kept_rows(const MoeConfig& moe, const ExpertPlace& place, int64_t tokens) {
  int64_t choices = tokens * moe.routing.topk;
  const int64_t ep = moe.experts / place.experts_here(moe);
  if (const int64_t most = moe.capacity(tokens); most > 0)
    choices = std::min(choices, moe.experts * most);
  if (const int64_t most = moe.rank_capacity(tokens, ep); most > 0)
    choices = std::min(choices, ep * most);
  return choices * place.copies;
}

Tensor own_indices(const Batch& batch) {
  return batch.stream_rows(batch.token_index).view({batch.stream_tokens, 1});
}

Tensor row_count_of(int64_t rows) {
  const Tensor count = host_tensor(DType::i64, {1});
  *count.data<int64_t>() = rows;
  return count;
}

EdgeTensor MoeEdges::tokens() const {
  return activations(moe_edge::tokens, batch_.stream_tokens);
}

EdgeTensor MoeEdges::probabilities() const {
  return {std::string(moe_edge::probabilities),
          context_.settings.precision.statistic,
          {batch_.stream_tokens, moe_.routing.topk}};
}

EdgeTensor MoeEdges::combined_probabilities() const {
  EdgeTensor all = probabilities();
  all.needs_gradient = false;
  if (place_.gathers(moe_)) all.shape[0] *= place_.ranks;
  if (place_.by_domain()) all.shape[0] = kAnyRows;
  return all;
}

EdgeTensor MoeEdges::row_factors() const {
  Shape shape{0, 1};
  shape[0] = kAnyRows;
  return {std::string(moe_edge::row_factors), context_.settings.precision.statistic, shape};
}

EdgeTensor MoeEdges::choice() const {
  return integers(moe_edge::choice, DType::i32, {batch_.stream_tokens, moe_.routing.topk});
}

EdgeTensor MoeEdges::sources() const {
  return integers(moe_edge::sources, DType::i32, {sent_rows()});
}

EdgeTensor MoeEdges::position() const {
  const int64_t k = moe_.routing.topk;
  if (place_.by_domain()) {
    Shape shape{0, k * place_.copies};
    shape[0] = kAnyRows;
    return integers(moe_edge::position, DType::i32, shape);
  }
  return integers(moe_edge::position, DType::i32,
                  place_.gathers(moe_) ? Shape{place_.ranks * batch_.stream_tokens, k}
                                       : Shape{batch_.stream_tokens, k * place_.copies});
}

EdgeTensor MoeEdges::counts() const {
  return integers(moe_edge::counts, DType::i64, {moe_.experts * place_.copies});
}

EdgeTensor MoeEdges::sent_offsets() const {
  return integers(moe_edge::sent_offsets, DType::i32, {moe_.experts * place_.copies + 1});
}

EdgeTensor MoeEdges::rows() const {
  return activations(moe_edge::rows, place_.ranks == 1 ? sent_rows() : kAnyRows);
}

EdgeTensor MoeEdges::row_index() const {
  Shape shape{0, 1};
  shape[0] = place_.ranks == 1 ? sent_rows() : kAnyRows;
  return integers(moe_edge::row_index, DType::i64, shape);
}

EdgeTensor MoeEdges::offsets() const {
  return integers(moe_edge::offsets, DType::i32, {place_.experts_here(moe_) + 1});
}

EdgeTensor MoeEdges::results() const {
  return activations(moe_edge::results, place_.ranks == 1 ? sent_rows() : kAnyRows);
}

EdgeTensor MoeEdges::exchange() const {
  return on_host(integers(moe_edge::exchange, DType::i64,
                          {2, place_.by_domain() ? place_.inside_domain().ranks : place_.ranks}));
}

EdgeTensor MoeEdges::arrival() const {
  Shape shape{2, 0};
  if (place_.ranks > 1) shape[1] = kAnyRows;
  return integers(moe_edge::arrival, DType::i32, shape);
}

EdgeTensor MoeEdges::row_count() const {
  return on_host(integers(moe_edge::row_count, DType::i64, {1}));
}

EdgeTensor MoeEdges::domain_exchange() const {
  return on_host(integers(moe_edge::domain_exchange, DType::i64, {2, place_.domains}));
}

EdgeTensor MoeEdges::domain_tokens() const {
  Shape shape{0};
  shape[0] = kAnyRows;
  return integers(moe_edge::domain_tokens, DType::i32, shape);
}

EdgeTensor MoeEdges::domain_position() const {
  return integers(moe_edge::domain_position, DType::i32, {batch_.stream_tokens, moe_.routing.topk});
}

EdgeTensor MoeEdges::shared() const {
  return activations(moe_edge::shared, batch_.stream_tokens);
}

}  // namespace viaduct
