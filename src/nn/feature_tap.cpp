#include "nn/feature_tap.h"

#include "ops/elementwise.h"

namespace viaduct {

std::vector<std::string_view> FeatureTapSegment::outputs() const {
  if (last_) return {output_};
  return {kHidden, output_};
}

TensorSet FeatureTapSegment::forward(RankContext&, const Batch&, const TensorSet& in,
                                     SavedStore& saved) {
  if (!saved.output_is_read()) return {};
  TensorSet out(output_, in.get(kHidden));
  if (!last_) out.set(kHidden, in.get(kHidden));
  return out;
}

TensorSet FeatureTapSegment::backward_input(RankContext& context, const Batch&,
                                            const TensorSet& d_out, SavedStore&) {
  const Tensor d = d_out.get(output_);  // [T, features]
  if (last_) return TensorSet(kHidden, d);
  const Tensor sum = context.stream(d.shape(), MemoryTag::activations);
  add(context.ops, {d, d_out.get(kHidden), sum});
  return TensorSet(kHidden, sum);
}

}  // namespace viaduct
