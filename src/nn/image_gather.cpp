#include "nn/image_gather.h"

namespace viaduct {

Edge ImageGatherSegment::inputs(const RankContext& context, const Batch& batch) const {
  if (!batch.images.any()) return {};
  EdgeTensor own =
      image_features_edge(context, batch.images.rows / context.groups.cp().size(), hidden_);
  own.needs_gradient = needs_gradient_;
  return {own};
}

TensorSet ImageGatherSegment::forward(RankContext& context, const Batch& batch, const TensorSet& in,
                                      SavedStore& saved) {
  if (!batch.images.any()) return {};
  const Tensor own = in.get(kImageFeatures);
  Communicator& cp = context.groups.cp();
  if (cp.size() == 1 || own.dim(0) == 0) return TensorSet(kImageFeatures, own);
  const Tensor all = context.activation({cp.size() * own.dim(0), own.dim(1)}, saved.output_tag());
  cp.all_gather(own, all).wait();
  return TensorSet(kImageFeatures, all);
}

TensorSet ImageGatherSegment::backward_input(RankContext& context, const Batch&,
                                             const TensorSet& d_out, SavedStore&) {
  if (!needs_gradient_) return {};
  const Tensor all = d_out.get(kImageFeatures);
  Communicator& cp = context.groups.cp();
  if (cp.size() == 1 || all.dim(0) == 0) return TensorSet(kImageFeatures, all);
  const Tensor own =
      context.activation({all.dim(0) / cp.size(), all.dim(1)}, MemoryTag::activations);
  cp.reduce_scatter(all, own).wait();
  return TensorSet(kImageFeatures, own);
}

}  // namespace viaduct
