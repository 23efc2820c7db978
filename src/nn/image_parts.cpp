#include "nn/image_parts.h"

#include "nn/split_rows.h"

namespace viaduct {

Edge ImagePartSegment::inputs(const RankContext& context, const Batch& batch) const {
  EdgeTensor features = image_features_edge(context, all_rows(batch), hidden_);
  features.needs_gradient = needs_gradient_;
  return {features};
}

TensorSet ImagePartSegment::forward(RankContext& context, const Batch&, const TensorSet& in,
                                    SavedStore&) {
  return TensorSet(kImageFeatures, cut_split_rows(context, in.get(kImageFeatures)));
}

TensorSet ImagePartSegment::backward_input(RankContext& context, const Batch& batch,
                                           const TensorSet& d_out, SavedStore&) {
  if (!needs_gradient_) return {};
  return TensorSet(kImageFeatures, gather_split_rows(context, d_out.get(kImageFeatures),
                                                     all_rows(batch), MemoryTag::activations));
}

Edge ImagePartsSegment::inputs(const RankContext& context, const Batch& batch) const {
  if (!batch.images.any()) return {};
  const int64_t all = batch.images.rows / context.groups.cp().size();
  EdgeTensor features = image_features_edge(context, split_rows(context, all), hidden_);
  features.needs_gradient = needs_gradient_;
  return {features};
}

TensorSet ImagePartsSegment::forward(RankContext& context, const Batch& batch, const TensorSet& in,
                                     SavedStore& saved) {
  if (!batch.images.any()) return {};
  const int64_t all = batch.images.rows / context.groups.cp().size();
  return TensorSet(kImageFeatures,
                   gather_split_rows(context, in.get(kImageFeatures), all, saved.output_tag()));
}

TensorSet ImagePartsSegment::backward_input(RankContext& context, const Batch&,
                                            const TensorSet& d_out, SavedStore&) {
  if (!needs_gradient_) return {};
  return TensorSet(kImageFeatures, cut_split_rows(context, d_out.get(kImageFeatures)));
}

}  // namespace viaduct
