#include "nn/moe/combine.h"

#include <utility>

#include "nn/moe/gathered_rows.h"
#include "nn/moe/token_exchange.h"
#include "nn/moe/wire_format.h"
#include "ops/elementwise.h"
#include "ops/expert_rows.h"

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
  begun->sending =
      begin_home(context, place_, begun->order, in.get(moe_edge::results), saved.tag());
  begun->in.remove(moe_edge::results);
  return begun;
}

Tensor CombineSegment::sum_rows(RankContext& context, ResultsLeaving& leaving,
                                SavedStore& saved) const {
  const TensorSet& in = leaving.in;
  const bool gathers = place_.gathers(moe_);
  CombineRowsArgs sum;
  if (gathers) {
    sum.rows = in.get(moe_edge::results);
  } else {
    sum.rows = std::exchange(leaving.sending, {}).finish(context);  // [R, H]
    sum.copies = place_.copies;
    saved.keep(this, "exchange", leaving.order.rows);
    saved.keep(this, "arrival", leaving.order.arrival);
  }
  sum.position = in.get(moe_edge::position);
  sum.weight = in.get(moe_edge::probabilities);
  {
    const UnitScope scope(saved, unit::moe_combine);
    saved.keep(this, "rows", sum.rows);
  }
  saved.keep(this, "position", sum.position);
  saved.keep(this, "probabilities", sum.weight);
  if (!saved.output_is_read()) return {};
  // Of the tokens of all ranks, or of this rank's.
  sum.out = context.activation({sum.position.dim(0), hidden_}, MemoryTag::activations);
  combine_rows(context.ops, sum);
  return gathers ? sum_over_ranks(context, place_, sum.out).finish() : sum.out;
}

TensorSet CombineSegment::end_forward(RankContext& context, const Batch& batch, UnderWay& begun,
                                      SavedStore& saved) {
  auto& leaving = static_cast<ResultsLeaving&>(begun);
  const TensorSet& in = leaving.in;
  const Tensor sum = sum_rows(context, leaving, saved);  // [T, H]
  if (!saved.output_is_read()) return {};
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
  CombineRowsBackwardArgs spread;
  spread.d_out = gathers ? gather_tokens(context, place_, d_branch).finish() : d_branch;
  spread.rows = saved.take(this, "rows");
  spread.position = saved.take(this, "position");
  spread.weight = saved.take(this, "probabilities");
  spread.d_rows = context.activation(spread.rows.shape(), MemoryTag::activations);
  spread.d_weight = context.statistic(spread.weight.shape(), MemoryTag::activations);
  spread.copies = gathers ? 1 : place_.copies;
  // Rows of dropped choices and of padding have no gradient.
  if (moe_.drops() || moe_.rows_multiple > 1) fill(context.ops, {spread.d_rows, 0});
  combine_rows_backward(context.ops, spread);
  auto begun = std::make_shared<GradientsLeaving>();
  TensorSet& d_in = begun->d_in;
  d_in.set(kHidden, d_stream);
  d_in.set(moe_edge::probabilities, spread.d_weight);
  if (moe_.shared_feed_forward > 0) d_in.set(moe_edge::shared, d_branch);
  if (gathers) {
    d_in.set(moe_edge::results, spread.d_rows);
  } else {
    const ExchangeOrder order{saved.take(this, "exchange"), saved.take(this, "arrival")};
    begun->sending = begin_to_experts(context, place_, order,
                                      for_wire(context, spread.d_rows, moe_.quantized_gradients),
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
