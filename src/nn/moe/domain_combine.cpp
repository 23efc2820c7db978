#include "nn/moe/domain_combine.h"

#include <utility>

#include "nn/moe/domain_exchange.h"
#include "nn/moe/token_exchange.h"
#include "nn/moe/wire_format.h"
#include "ops/elementwise.h"

namespace viaduct {
namespace {

struct SumsLeaving final : UnderWay {
  SumsUnderWay sums;
  DomainOrder domains;
  TensorSet in;  // what the end still reads
};

struct GradientsOut final : UnderWay {
  TokensUnderWay sending;
  TensorSet d_in;  // gradients that are there already
};

}  // namespace

ExchangeSegment::Begun DomainCombineSegment::begin_forward(RankContext& context, const Batch&,
                                                           const TensorSet& in, SavedStore& saved) {
  auto begun = std::make_shared<SumsLeaving>();
  begun->domains = {in.get(moe_edge::domain_exchange), in.get(moe_edge::domain_tokens),
                    in.get(moe_edge::domain_position)};
  const ExchangeOrder order{in.get(moe_edge::exchange), in.get(moe_edge::arrival)};
  saved.keep(this, "exchange", order.rows);
  saved.keep(this, "arrival", order.arrival);
  keep_sum(in, saved);
  if (!saved.output_is_read()) return begun;
  begun->in.set(kHidden, in.get(kHidden));
  if (moe_.shared_feed_forward > 0) begun->in.set(moe_edge::shared, in.get(moe_edge::shared));
  const Tensor rows =
      begin_home(context, place_.inside_domain(), order, in.get(moe_edge::results)).finish(context);
  const Tensor sums = sum_results(context, in, rows, place_.copies);  // [V, H]
  begun->sums = begin_sums_home(context, place_, begun->domains, sums);
  return begun;
}

TensorSet DomainCombineSegment::end_forward(RankContext& context, const Batch& batch,
                                            UnderWay& begun, SavedStore& saved) {
  auto& leaving = static_cast<SumsLeaving&>(begun);
  saved.keep(this, "domain_exchange", leaving.domains.rows);
  saved.keep(this, "domain_tokens", leaving.domains.tokens);
  saved.keep(this, "domain_position", leaving.domains.position);
  if (!saved.output_is_read()) return {};
  const Tensor sum = std::exchange(leaving.sums, {}).finish(context);  // [T, H]
  if (moe_.shared_feed_forward > 0) add(context.ops, {sum, leaving.in.get(moe_edge::shared), sum});
  return TensorSet(
      kHidden, residual_.forward(context, batch, sum, leaving.in.get(kHidden), saved.output_tag()));
}

ExchangeSegment::Begun DomainCombineSegment::begin_backward(RankContext& context,
                                                            const Batch& batch,
                                                            const TensorSet& d_out,
                                                            SavedStore& saved) {
  const Tensor d_stream = d_out.get(kHidden);
  const Tensor d_branch =  // [T, H]
      residual_.backward(context, batch, d_stream, context.settings.precision.activation);
  const DomainOrder domains{saved.take(this, "domain_exchange"), saved.take(this, "domain_tokens"),
                            saved.take(this, "domain_position")};
  auto begun = std::make_shared<GradientsOut>();
  begun->sending = begin_to_domains(context, place_, domains,
                                    for_wire(context, d_branch, moe_.quantized_gradients),
                                    MemoryTag::activations);
  begun->d_in.set(kHidden, d_stream);
  if (moe_.shared_feed_forward > 0) begun->d_in.set(moe_edge::shared, d_branch);
  return begun;
}

TensorSet DomainCombineSegment::end_backward(RankContext& context, const Batch&, UnderWay& begun,
                                             SavedStore& saved) {
  auto& leaving = static_cast<GradientsOut&>(begun);
  const Tensor d_out = from_wire(context, std::exchange(leaving.sending, {}).finish(),
                                 MemoryTag::activations);  // [V, H]
  const Tensor d_rows = spread_gradient(context, d_out, place_.copies, saved);
  const ExchangeOrder order{saved.take(this, "exchange"), saved.take(this, "arrival")};
  leaving.d_in.set(
      moe_edge::results,
      begin_to_experts(context, place_.inside_domain(), order,
                       for_wire(context, d_rows, moe_.quantized_gradients), MemoryTag::activations)
          .finish(context));
  return std::move(leaving.d_in);
}

}  // namespace viaduct
