#include "nn/encoder_output.h"

#include "nn/encoder_rows.h"

namespace viaduct {

std::vector<std::string_view> EncoderOutputSegment::outputs() const {
  return {kEncoded};
}

TensorSet EncoderOutputSegment::forward(RankContext& context, const Batch&, const TensorSet& in,
                                        SavedStore& saved) {
  return TensorSet(kEncoded, norm_.forward(context, in.get(kHidden), saved));
}

TensorSet EncoderOutputSegment::backward_input(RankContext& context, const Batch&,
                                               const TensorSet& d_out, SavedStore& saved) {
  const Tensor dy = d_out.get(kEncoded);  // [stream tokens, H], as d_in
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
