#include "nn/moe/combine.h"

#include <utility>

#include "nn/moe/gathered_rows.h"
#include "nn/moe/token_exchange.h"
#include "nn/moe/wire_format.h"
#include "ops/elementwise.h"

namespace viaduct {

struct CombineSegment::ResultsLeaving final : UnderWay {
  RowsUnderWay sending;  // where rows are exchanged
  ExchangeOrder order;
  TensorSet in;  // what the end still reads
};

struct CombineSegment::GradientsLeaving final : UnderWay {
  RowsUnderWay sending;  // where rows are exchanged
  TensorSet d_in;        // gradients that are there already
};

ExchangeSegment::Begun CombineSegment::begin_forward(RankContext& context, const Batch&,
                                                     const TensorSet& in, SavedStore& saved) {
  auto begun = std::make_shared<ResultsLeaving>();
  begun->in = in;
  if (place_.gathers(moe_)) return begun;
  begun->order = {in.get(moe_edge::exchange), in.get(moe_edge::arrival)};
  if (!saved.output_is_read()) return begun;
  begun->sending = begin_home(context, place_, begun->order, in.get(moe_edge::results));
  begun->in.remove(moe_edge::results);
  return begun;
}

Tensor CombineSegment::sum_rows(RankContext& context, ResultsLeaving& leaving) const {
  const TensorSet& in = leaving.in;
  if (!place_.gathers(moe_)) {
    const Tensor rows = std::exchange(leaving.sending, {}).finish(context);  // [R, H]
    return sum_results(context, in, rows, place_.copies);
  }
  // Of the tokens of all ranks.
  const Tensor all = sum_results(context, in, in.get(moe_edge::results), 1);
  return sum_over_ranks(context, place_, all).finish();
}

TensorSet CombineSegment::end_forward(RankContext& context, const Batch& batch, UnderWay& begun,
                                      SavedStore& saved) {
  auto& leaving = static_cast<ResultsLeaving&>(begun);
  const TensorSet& in = leaving.in;
  if (!place_.gathers(moe_)) {
    saved.keep(this, "exchange", leaving.order.rows);
    saved.keep(this, "arrival", leaving.order.arrival);
  }
  keep_sum(in, saved);
  if (!saved.output_is_read()) return {};
  const Tensor sum = sum_rows(context, leaving);  // [T, H]
  if (moe_.shared_feed_forward > 0) add(context.ops, {sum, in.get(moe_edge::shared), sum});
  return TensorSet(kHidden,
                   residual_.forward(context, batch, sum, in.get(kHidden), saved.output_tag()));
}

ExchangeSegment::Begun CombineSegment::begin_backward(RankContext& context, const Batch& batch,
                                                      const TensorSet& d_out, SavedStore& saved) {
  const Tensor d_stream = d_out.get(kHidden);
  const Tensor d_branch =  // [T, H]
      residual_.backward(context, batch, d_stream, context.settings.precision.activation);
  const bool gathers = place_.gathers(moe_);
  const Tensor d_rows = spread_gradient(
      context, gathers ? gather_tokens(context, place_, d_branch).finish() : d_branch,
      gathers ? 1 : place_.copies, saved);
  auto begun = std::make_shared<GradientsLeaving>();
  TensorSet& d_in = begun->d_in;
  d_in.set(kHidden, d_stream);
  if (moe_.shared_feed_forward > 0) d_in.set(moe_edge::shared, d_branch);
  if (gathers) {
    d_in.set(moe_edge::results, d_rows);
  } else {
    const ExchangeOrder order{saved.take(this, "exchange"), saved.take(this, "arrival")};
    begun->sending = begin_to_experts(context, place_, order,
                                      for_wire(context, d_rows, moe_.quantized_gradients),
                                      MemoryTag::activations);
  }
  return begun;
}

TensorSet CombineSegment::end_backward(RankContext& context, const Batch&, UnderWay& begun,
                                       SavedStore&) {
  auto& leaving = static_cast<GradientsLeaving&>(begun);
  if (!place_.gathers(moe_)) {
    leaving.d_in.set(moe_edge::results, std::exchange(leaving.sending, {}).finish(context));
  }
  return std::move(leaving.d_in);
}

}  // namespace viaduct
