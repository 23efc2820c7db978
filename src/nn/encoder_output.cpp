#include "nn/encoder_output.h"

#include "nn/encoder_rows.h"

namespace viaduct {

std::vector<std::string_view> EncoderOutputSegment::outputs() const {
  return {kEncoded};
}

TensorSet EncoderOutputSegment::forward(RankContext& context, const Batch&, const TensorSet& in,
                                        SavedStore& saved) {
  const Tensor own = norm_.forward(context, in.get(kHidden), saved);  // [stream tokens, H]
  Communicator& cp = context.groups.cp();
  if (cp.size() == 1) return TensorSet(kEncoded, own);
  const Tensor all = context.activation({cp.size() * own.dim(0), own.dim(1)}, saved.tag());
  cp.all_gather(own, all).wait();
  return TensorSet(kEncoded, all);
}

TensorSet EncoderOutputSegment::backward_input(RankContext& context, const Batch&,
                                               const TensorSet& d_out, SavedStore& saved) {
  Tensor dy = d_out.get(kEncoded);  // in the end [stream tokens, H], as d_in
  if (Communicator& cp = context.groups.cp(); cp.size() > 1) {
    // Each context rank has the gradient of all rows by its own tokens of the decoder.
    const Tensor own =
        context.activation({dy.dim(0) / cp.size(), dy.dim(1)}, MemoryTag::activations);
    cp.reduce_scatter(dy, own).wait();
    dy = own;
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

}  // namespace viaduct
