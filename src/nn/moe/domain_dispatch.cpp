#include "nn/moe/domain_dispatch.h"

#include <utility>

#include "nn/moe/domain_exchange.h"
#include "nn/moe/router_log.h"
#include "nn/moe/row_factors.h"
#include "nn/moe/token_exchange.h"
#include "nn/moe/wire_format.h"
#include "ops/expert_rows.h"

namespace viaduct {
namespace {

/// Rows of the arrived tokens for the experts of this domain, in the order of its ranks. Room for
/// all k choices of each token; how many have a row is known to whoever reads the counts.
/// `log`: where their number goes, as those of layer `block`; or null.
SortByExpertArgs order_inside(RankContext& context, const MoeConfig& moe, const ExpertPlace& inside,
                              int64_t domain, const Tensor& choice, MemoryTag tag, RouterLog* log,
                              int64_t block) {
  const int64_t destinations = moe.experts / inside.domains * inside.copies;
  const int64_t places = choice.dim(1) * inside.copies;
  const auto integers = [&](const Shape& shape, MemoryTag of, DType dtype = DType::i32) {
    return context.ops.allocate(dtype, shape, of);
  };
  SortByExpertArgs order;
  order.choice = choice;
  order.experts_per_rank = inside.experts_here(moe);
  order.copies = inside.copies;
  order.first_expert = domain * (moe.experts / inside.domains);
  order.rows_multiple = moe.rows_multiple;
  order.token = integers({choice.dim(0) * places + destinations * (moe.rows_multiple - 1)},
                         MemoryTag::activations);
  order.position = integers({choice.dim(0), places}, tag);
  order.counts = integers({destinations}, MemoryTag::activations, DType::i64);
  order.offsets = integers({destinations + 1}, MemoryTag::activations);
  if (log != nullptr && moe.rows_multiple > 1) log->count_rows(block, order);
  sort_by_expert(context.ops, order);
  return order;
}

struct TokensLeaving final : UnderWay {
  DomainOrder domains;
  TokensUnderWay choices, sending, weights, indices;
  Tensor tokens;  // for a shared expert beside them
};

struct GradientsHome final : UnderWay {
  SumsUnderWay tokens, probabilities;
  SharedExpertSegment::OwnGradient own;
};

}  // namespace

ExchangeSegment::Begun DomainDispatchSegment::begin_forward(RankContext& context,
                                                            const Batch& batch, const TensorSet& in,
                                                            SavedStore& saved) {
  const MemoryTag tag = saved.output_tag();
  const Tensor choice = in.get(moe_edge::choice), tokens = in.get(moe_edge::tokens);
  auto begun = std::make_shared<TokensLeaving>();
  const DomainOrder& domains = begun->domains =
      agree_on_domains(context, moe_, place_, choice, tag);
  begun->choices = begin_to_domains(context, place_, domains, choice, MemoryTag::activations);
  begun->sending =
      begin_to_domains(context, place_, domains, for_wire(context, tokens, moe_.quantized_tokens),
                       MemoryTag::activations);
  begun->weights = begin_to_domains(context, place_, domains, in.get(moe_edge::probabilities), tag);
  if (moe_.row_indices)
    begun->indices =
        begin_to_domains(context, place_, domains, own_indices(batch), MemoryTag::activations);
  if (beside_) begun->tokens = tokens;
  return begun;
}

TensorSet DomainDispatchSegment::end_forward(RankContext& context, const Batch& batch,
                                             UnderWay& begun, SavedStore& saved) {
  auto& leaving = static_cast<TokensLeaving&>(begun);
  const MemoryTag tag = saved.output_tag();
  const ExpertPlace inside = place_.inside_domain();
  const DomainOrder& domains = leaving.domains;
  // The order of rows needs only the choices: tokens and weights may still be in transit.
  const Tensor choices = std::exchange(leaving.choices, {}).finish().tensor();
  const SortByExpertArgs order =
      order_inside(context, moe_, inside, place_.across_domains(context).rank(), choices, tag,
                   logs(context, saved) ? context.router_log : nullptr, block_);
  const Tensor offsets = context.ops.allocate(DType::i32, {inside.experts_here(moe_) + 1}, tag);
  const ExchangeOrder rows =
      agree_on_rows(context, moe_, inside, order.counts,
                    kept_rows(moe_, place_, batch.stream_tokens), offsets, tag);
  TensorSet out;
  run_beside(context, batch, leaving.tokens, saved, out);
  const Operand arrived = std::exchange(leaving.sending, {}).finish();
  out.set(moe_edge::rows, begin_to_experts(context, inside, rows, arrived, tag,
                                           order.token.slice(0, 0, rows_leaving(rows)))
                              .finish(context));
  if (moe_.row_indices) {
    const Operand indices = std::exchange(leaving.indices, {}).finish();
    out.set(moe_edge::row_index, begin_to_experts(context, inside, rows, indices, tag,
                                                  order.token.slice(0, 0, rows_leaving(rows)))
                                     .finish(context));
  }
  saved.keep(this, "position", order.position);
  saved.keep(this, "exchange", rows.rows);
  saved.keep(this, "arrival", rows.arrival);
  saved.keep(this, "domain_exchange", domains.rows);
  saved.keep(this, "domain_tokens", domains.tokens);
  saved.keep(this, "domain_position", domains.position);
  const Tensor weights = std::exchange(leaving.weights, {}).finish().tensor();  // [V, k]
  saved.keep(this, "probabilities", weights);
  out.set(moe_edge::row_factors, no_row_factors(context, tag));
  out.set(moe_edge::offsets, offsets);
  out.set(moe_edge::position, order.position);
  out.set(moe_edge::row_count, row_count_of(rows_leaving(rows)));
  out.set(moe_edge::exchange, rows.rows);
  out.set(moe_edge::arrival, rows.arrival);
  out.set(moe_edge::probabilities, weights);
  out.set(moe_edge::domain_exchange, domains.rows);
  out.set(moe_edge::domain_tokens, domains.tokens);
  out.set(moe_edge::domain_position, domains.position);
  return out;
}

ExchangeSegment::Begun DomainDispatchSegment::begin_backward(RankContext& context, const Batch&,
                                                             const TensorSet& d_out,
                                                             SavedStore& saved) {
  const ExpertPlace inside = place_.inside_domain();
  const ExchangeOrder order{saved.take(this, "exchange"), saved.take(this, "arrival")};
  const DomainOrder domains{saved.take(this, "domain_exchange"), saved.take(this, "domain_tokens"),
                            saved.take(this, "domain_position")};
  RowsUnderWay sending = begin_home(context, inside, order, d_out.get(moe_edge::rows));
  RowsUnderWay factors = begin_home(context, inside, order, d_out.get(moe_edge::row_factors));
  auto begun = std::make_shared<GradientsHome>();
  if (beside_) begun->own = beside_->begin_backward(context, d_out.get(moe_edge::shared), saved);
  CombineRowsArgs sum;
  sum.rows = sending.finish(context);
  sum.position = saved.take(this, "position");
  sum.out = context.activation({domains.arriving(), hidden_}, MemoryTag::activations);  // [V, H]
  sum.copies = place_.copies;
  combine_rows(context.ops, sum);
  begun->tokens = begin_sums_home(context, place_, domains, sum.out);
  begun->probabilities =
      begin_sums_home(context, place_, domains,
                      weight_gradient(context, factors.finish(context), sum.position,
                                      saved.take(this, "probabilities"), place_.copies));  // [V, k]
  return begun;
}

TensorSet DomainDispatchSegment::end_backward(RankContext& context, const Batch&, UnderWay& begun,
                                              SavedStore& saved) {
  auto& leaving = static_cast<GradientsHome&>(begun);
  const Tensor d_tokens = std::exchange(leaving.tokens, {}).finish(context);  // [T, H]
  // Each choice has its gradient in the one domain of its expert, and 0 in others.
  TensorSet d_in(moe_edge::probabilities, std::exchange(leaving.probabilities, {}).finish(context));
  d_in.set(moe_edge::tokens,
           beside_ ? beside_->finish_backward(context, leaving.own, d_tokens, saved) : d_tokens);
  return d_in;
}

}  // namespace viaduct
