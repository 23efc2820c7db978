#include "nn/moe/dispatch.h"

#include <utility>

#include "nn/moe/row_factors.h"
#include "nn/moe/token_exchange.h"
#include "nn/moe/wire_format.h"
#include "ops/expert_rows.h"

namespace viaduct {
namespace {

struct RowsLeaving final : UnderWay {
  RowsUnderWay sending, indices;
  ExchangeOrder order;
  TensorSet made;  // outputs that are there already
};

struct GradientsLeaving final : UnderWay {
  RowsUnderWay sending, factors;
  SharedExpertSegment::OwnGradient own;
};

}  // namespace

ExchangeSegment::Begun DispatchSegment::begin_forward(RankContext& context, const Batch& batch,
                                                      const TensorSet& in, SavedStore& saved) {
  const Tensor tokens = in.get(moe_edge::tokens), sources = in.get(moe_edge::sources);
  const MemoryTag tag = saved.output_tag();
  const bool alone = place_.ranks == 1;
  Tensor offsets = in.get(moe_edge::sent_offsets);
  ExchangeOrder order;
  if (alone) {
    order = {host_tensor(DType::i64, {2, 1}), context.ops.allocate(DType::i32, {2, 0}, tag)};
  } else {
    offsets = context.ops.allocate(DType::i32, {place_.experts_here(moe_) + 1}, tag);
    const int64_t rows =
        moe_.pad_to_capacity ? sources.dim(0) : kept_rows(moe_, place_, batch.stream_tokens);
    order = agree_on_rows(context, moe_, place_, in.get(moe_edge::counts), rows, offsets, tag);
  }
  auto begun = std::make_shared<RowsLeaving>();
  begun->sending = begin_to_experts(context, place_, order,
                                    for_wire(context, tokens, moe_.quantized_tokens), tag, sources);
  if (moe_.row_indices)
    begun->indices = begin_to_experts(context, place_, order, own_indices(batch), tag, sources);
  TensorSet& out = begun->made;
  run_beside(context, batch, tokens, saved, out);
  const Tensor position = in.get(moe_edge::position), weight = in.get(moe_edge::probabilities);
  saved.keep(this, "position", position);
  saved.keep(this, "probabilities", weight);
  out.set(moe_edge::offsets, offsets);
  out.set(moe_edge::position, position);
  out.set(moe_edge::probabilities, weight);
  out.set(moe_edge::row_factors, no_row_factors(context, tag));
  out.set(moe_edge::row_count, row_count_of(alone ? sources.dim(0) : rows_leaving(order)));
  out.set(moe_edge::exchange, order.rows);
  out.set(moe_edge::arrival, order.arrival);
  begun->order = std::move(order);
  return begun;
}

TensorSet DispatchSegment::end_forward(RankContext& context, const Batch&, UnderWay& begun,
                                       SavedStore& saved) {
  auto& leaving = static_cast<RowsLeaving&>(begun);
  leaving.made.set(moe_edge::rows, std::exchange(leaving.sending, {}).finish(context));
  if (moe_.row_indices)
    leaving.made.set(moe_edge::row_index, std::exchange(leaving.indices, {}).finish(context));
  saved.keep(this, "exchange", leaving.order.rows);
  saved.keep(this, "arrival", leaving.order.arrival);
  return std::move(leaving.made);
}

ExchangeSegment::Begun DispatchSegment::begin_backward(RankContext& context, const Batch&,
                                                       const TensorSet& d_out, SavedStore& saved) {
  const ExchangeOrder order{saved.take(this, "exchange"), saved.take(this, "arrival")};
  auto begun = std::make_shared<GradientsLeaving>();
  begun->sending = begin_home(context, place_, order, d_out.get(moe_edge::rows));
  begun->factors = begin_home(context, place_, order, d_out.get(moe_edge::row_factors));
  if (beside_) begun->own = beside_->begin_backward(context, d_out.get(moe_edge::shared), saved);
  return begun;
}

TensorSet DispatchSegment::end_backward(RankContext& context, const Batch& batch, UnderWay& begun,
                                        SavedStore& saved) {
  auto& leaving = static_cast<GradientsLeaving&>(begun);
  CombineRowsArgs sum;
  sum.rows = std::exchange(leaving.sending, {}).finish(context);  // [R, H]
  sum.position = saved.take(this, "position");
  sum.out = context.activation({batch.stream_tokens, hidden_}, MemoryTag::activations);
  sum.copies = place_.copies;
  combine_rows(context.ops, sum);
  TensorSet d_in(
      moe_edge::tokens,
      beside_ ? beside_->finish_backward(context, leaving.own, sum.out, saved) : sum.out);
  d_in.set(moe_edge::probabilities,
           weight_gradient(context, std::exchange(leaving.factors, {}).finish(context),
                           sum.position, saved.take(this, "probabilities"), place_.copies));
  return d_in;
}

}  // namespace viaduct
