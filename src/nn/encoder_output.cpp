#include "nn/encoder_output.h"

#include "nn/encoder_rows.h"
#include "nn/tensor_exchange.h"
#include "ops/elementwise.h"

namespace viaduct {
namespace {

/// A tensor rank's part of the stream from the rows of all tokens [T, H].
Tensor stream_part(RankContext& context, const Tensor& all, MemoryTag tag) {
  if (!stream_is_cut(context)) return all;
  const Communicator& tp = context.groups.tp();
  const int64_t rows = all.dim(0) / tp.size();
  const Tensor part = context.activation({rows, all.dim(1)}, tag);
  copy(context.ops, {all.slice(0, tp.rank() * rows, rows), part});
  return part;
}

}  // namespace

Edge EncoderOutputSegment::inputs(const RankContext& context, const Batch& batch) const {
  EdgeTensor stream = stream_edge(context, batch, norm_.features());
  stream.needs_gradient = needs_gradient_;
  return {stream};
}

std::vector<std::string_view> EncoderOutputSegment::outputs() const {
  return {kEncoded};
}

TensorSet EncoderOutputSegment::forward(RankContext& context, const Batch&, const TensorSet& in,
                                        SavedStore& saved) {
  // Without a gradient only the result outlives this call.
  SavedStore forgotten(saved.keeps());
  const Tensor own =  // [stream tokens, H]
      norm_.forward(context, in.get(kHidden), needs_gradient_ ? saved : forgotten);
  Communicator& cp = context.groups.cp();
  if (cp.size() == 1) return TensorSet(kEncoded, own);
  const Tensor rows = gather_stream(context, own);  // whole ones of this context rank
  const Tensor all =
      context.activation({cp.size() * rows.dim(0), rows.dim(1)},
                         stream_is_cut(context) ? MemoryTag::activations : saved.tag());
  cp.all_gather(rows, all).wait();
  return TensorSet(kEncoded, stream_part(context, all, saved.tag()));
}

TensorSet EncoderOutputSegment::backward_input(RankContext& context, const Batch&,
                                               const TensorSet& d_out, SavedStore& saved) {
  if (!needs_gradient_) return {};
  Tensor dy = d_out.get(kEncoded);  // in the end [stream tokens, H], as d_in
  if (Communicator& cp = context.groups.cp(); cp.size() > 1) {
    // Each context rank has the gradient of all rows by its own tokens of the decoder.
    const Tensor all = gather_stream(context, dy);
    const Tensor own =
        context.activation({all.dim(0) / cp.size(), all.dim(1)}, MemoryTag::activations);
    cp.reduce_scatter(all, own).wait();
    dy = stream_part(context, own, MemoryTag::activations);
  }
  const Tensor d_in = context.stream(dy.shape(), MemoryTag::activations);
  norm_.backward(context, dy, Tensor(), d_in, saved);
  return TensorSet(kHidden, d_in);
}

std::vector<const Parameter*> EncoderOutputSegment::parameters() const {
  std::vector<const Parameter*> list;
  norm_.append_parameters(list);
  return list;
}

std::vector<const Parameter*> EncoderOutputSegment::read_backward() const {
  return needs_gradient_ ? parameters() : std::vector<const Parameter*>();
}

}  // namespace viaduct
