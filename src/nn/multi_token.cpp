#include "nn/multi_token.h"

#include "base/error.h"
#include "nn/tensor_exchange.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/optimizer.h"

namespace viaduct {
namespace {

const ShiftedTokens& tokens_of(const Batch& batch, size_t depth) {
  VIADUCT_CHECK(ShapeError, depth < batch.shifted.size(),
                "multi-token prediction: the batch has the tokens of {} depths, and depth {} runs",
                batch.shifted.size(), depth + 1);
  return batch.shifted[depth];
}

EdgeTensor trunk_edge(const RankContext& context, const Batch& batch, int64_t hidden) {
  EdgeTensor edge = stream_edge(context, batch, hidden);
  edge.name = kTrunk;
  return edge;
}

/// `x` in `format`: itself, or a copy.
Tensor in_format(RankContext& context, const Tensor& x, DType format, MemoryTag tag) {
  if (x.dtype() == format) return x;
  const Tensor out = context.ops.allocate(format, x.shape(), tag);
  copy(context.ops, {x, out});
  return out;
}

/// The losses of a scope are added up in another state.
class LossStateScope {
 public:
  LossStateScope(RankContext& context, Tensor state)
      : context_(context), before_(std::move(context.loss_state)) {
    context_.loss_state = std::move(state);
  }
  ~LossStateScope() { context_.loss_state = std::move(before_); }
  LossStateScope(const LossStateScope&) = delete;
  LossStateScope& operator=(const LossStateScope&) = delete;

 private:
  RankContext& context_;
  Tensor before_;
};

}  // namespace

Edge MultiTokenInputSegment::inputs(const RankContext& context, const Batch& batch) const {
  return {stream_edge(context, batch, parts_.hidden_norm.features())};
}

int64_t MultiTokenInputSegment::first_row(const RankContext& context) const {
  return context.groups.tp().rank() * parts_.tokens->shape[0];
}

Tensor MultiTokenInputSegment::embed(RankContext& context, const Batch& batch) const {
  const int64_t hidden = parts_.hidden_norm.features();
  Tensor rows = context.stream({batch.tokens(), hidden});
  {
    const AcquiredWeight table(context.weights, *parts_.tokens, WeightUse::lookup);
    // rows [T, H] = scale · tokens [V, H] at the ids; 0 where another rank has the row
    embedding_forward(context.ops, {tokens_of(batch, depth_).ids, table.tensor(), rows,
                                    first_row(context), parts_.embedding_scale, WriteMode::assign});
  }
  rows = reduce_to_stream(context, rows, MemoryTag::saved);
  return parts_.dropout.forward(context, batch, rows, Tensor());
}

TensorSet MultiTokenInputSegment::forward(RankContext& context, const Batch& batch,
                                          const TensorSet& in, SavedStore& saved) {
  const UnitScope scope(saved, "multi_token_input");
  const Tensor stream = in.get(kHidden);  // [stream tokens, H]
  const int64_t rows = stream.dim(0), hidden = parts_.hidden_norm.features();
  const Tensor joined = context.activation({rows, 2 * hidden}, saved.tag());
  {
    const Tensor embedded = parts_.embedding_norm.forward(context, embed(context, batch), saved);
    copy(context.ops, {embedded, joined.slice(1, 0, hidden)});
  }
  {
    const Tensor before = parts_.previous_norm.forward(context, stream, saved);
    const Tensor normed = parts_.hidden_norm.forward(context, before, saved);
    copy(context.ops, {normed, joined.slice(1, hidden, hidden)});
  }
  // out [stream tokens, H] = joined [., 2 H] · Wᵀ
  const Tensor projected = parts_.project.forward(context, joined, saved);
  TensorSet out(kHidden,
                in_format(context, projected, context.settings.precision.stream, MemoryTag::saved));
  if (depth_ == 0) out.set(kTrunk, stream);
  return out;
}

TensorSet MultiTokenInputSegment::backward_input(RankContext& context, const Batch& batch,
                                                 const TensorSet& d_out, SavedStore& saved) {
  const PrecisionRecipe& precision = context.settings.precision;
  const int64_t hidden = parts_.hidden_norm.features();
  const Tensor d_projected =
      in_format(context, d_out.get(kHidden), precision.activation, MemoryTag::saved);
  const Tensor d_joined = parts_.project.backward_input(context, d_projected, saved);
  const Shape shape{d_joined.dim(0), hidden};

  const Tensor d_embedded = context.stream(shape, MemoryTag::activations);
  parts_.embedding_norm.backward(context, d_joined.slice(1, 0, hidden), Tensor(), d_embedded,
                                 saved);
  if (parts_.tokens->trained)
    saved.keep(this, "d_rows",
               parts_.dropout.backward(context, batch, d_embedded, precision.stream));

  const Tensor d_before = context.activation(shape, MemoryTag::activations);
  parts_.hidden_norm.backward(context, d_joined.slice(1, hidden, hidden), Tensor(), d_before,
                              saved);
  const Tensor d_trunk = depth_ == 0 ? d_out.get(kTrunk) : Tensor();
  const Tensor d_in = context.stream(shape, MemoryTag::activations);
  parts_.previous_norm.backward(context, d_before, d_trunk, d_in, saved);
  return TensorSet(kHidden, d_in);
}

void MultiTokenInputSegment::backward_weight(RankContext& context, const Batch& batch,
                                             SavedStore& saved) {
  parts_.project.backward_weight(context, saved);
  if (!parts_.tokens->trained) return;
  const Tensor d_rows = saved.take(this, "d_rows");
  const auto table = context.gradients->gradient(*parts_.tokens);
  // dW [V, H] (= or +=) the sum of scale · d_rows over the tokens of an id
  embedding_backward(context.ops,
                     {tokens_of(batch, depth_).ids, gather_stream(context, d_rows), table.tensor,
                      first_row(context), parts_.embedding_scale, table.mode, parts_.padding});
  context.gradients->done(*parts_.tokens);
}

std::vector<const Parameter*> MultiTokenInputSegment::multiplied() const {
  std::vector<const Parameter*> list;
  parts_.embedding_norm.append_parameters(list);
  parts_.previous_norm.append_parameters(list);
  parts_.hidden_norm.append_parameters(list);
  parts_.project.append_parameters(list);
  return list;
}

std::vector<const Parameter*> MultiTokenInputSegment::parameters() const {
  std::vector<const Parameter*> list = multiplied();
  list.insert(list.begin(), parts_.tokens.get());
  return list;
}

std::vector<const Parameter*> MultiTokenInputSegment::read_backward() const {
  return multiplied();
}

Edge MultiTokenHeadSegment::inputs(const RankContext& context, const Batch& batch) const {
  Edge edge{stream_edge(context, batch, hidden_)};
  if (last_) edge.push_back(trunk_edge(context, batch, hidden_));
  return edge;
}

Batch MultiTokenHeadSegment::of_depth(const Batch& batch) const {
  Batch seen = batch;
  const ShiftedTokens& tokens = tokens_of(batch, depth_);
  seen.targets = tokens.targets;
  seen.loss_weight = tokens.loss_weight;
  return seen;
}

Batch MultiTokenHeadSegment::scaled_of_depth(RankContext& context, const Batch& batch) const {
  Batch seen = of_depth(batch);
  const Tensor weight = seen.loss_weight;
  seen.loss_weight = context.ops.allocate(weight.dtype(), weight.shape(), MemoryTag::workspace);
  scale(context.ops, {weight, seen.loss_weight, loss_scale_});
  return seen;
}

TensorSet MultiTokenHeadSegment::forward(RankContext& context, const Batch& batch,
                                         const TensorSet& in, SavedStore& saved) {
  const Batch seen = of_depth(batch);
  const Tensor sums = context.depth_losses.select(static_cast<int64_t>(depth_));
  saved.once([&] {
    const Tensor ones =
        context.ops.allocate(DType::f64, seen.loss_weight.shape(), MemoryTag::workspace);
    fill(context.ops, {ones, 1});
    reproducible_sum(context.ops, {ones, seen.loss_weight, false, sums.select(1)});
  });
  const LossStateScope scope(context, sums.select(0));
  (void)head_.forward(context, seen, TensorSet(kHidden, in.get(kHidden)), saved);
  return TensorSet(kHidden, in.get(last_ ? kTrunk : kHidden));
}

TensorSet MultiTokenHeadSegment::join(RankContext& context, const Tensor& d_stream,
                                      const TensorSet& d_out) const {
  const Tensor d_passed = d_out.get(kHidden);
  if (!last_) {
    add(context.ops, {d_stream, d_passed, d_stream});
    return TensorSet(kHidden, d_stream);
  }
  TensorSet d_in(kHidden, d_stream);
  d_in.set(kTrunk, d_passed);
  return d_in;
}

TensorSet MultiTokenHeadSegment::backward(RankContext& context, const Batch& batch,
                                          const TensorSet& d_out, SavedStore& saved) {
  const Batch seen = scaled_of_depth(context, batch);
  return join(context, head_.backward(context, seen, {}, saved).get(kHidden), d_out);
}

TensorSet MultiTokenHeadSegment::backward_input(RankContext& context, const Batch& batch,
                                                const TensorSet& d_out, SavedStore& saved) {
  const Batch seen = scaled_of_depth(context, batch);
  return join(context, head_.backward_input(context, seen, {}, saved).get(kHidden), d_out);
}

void MultiTokenHeadSegment::backward_weight(RankContext& context, const Batch& batch,
                                            SavedStore& saved) {
  head_.backward_weight(context, of_depth(batch), saved);
}

}  // namespace viaduct
