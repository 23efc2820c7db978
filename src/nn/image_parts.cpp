#include "nn/image_parts.h"

#include "comm/row_part.h"
#include "ops/elementwise.h"

namespace viaduct {
namespace {

Communicator& ranks_of(const RankContext& context) {
  return *context.groups.of(GroupKind::tp_split);
}

RowPart part_of(const RankContext& context, int64_t all) {
  const Communicator& ranks = ranks_of(context);
  return RowPart::of(all, ranks.size(), ranks.rank());
}

/// [all, H] from this rank's part of it.
Tensor gather(RankContext& context, const Tensor& part, int64_t all, MemoryTag tag) {
  if (all == 0) return part;
  Communicator& ranks = ranks_of(context);
  const int64_t each = RowPart::most(all, ranks.size()), width = part.dim(1);
  Tensor own = part;
  if (part.dim(0) < each) {  // the last ones have fewer rows
    own = context.activation({each, width}, MemoryTag::activations);
    fill(context.ops, {own, 0});
    if (part.dim(0) > 0) copy(context.ops, {part, own.slice(0, 0, part.dim(0))});
  }
  const Tensor whole = context.activation({ranks.size() * each, width}, tag);
  ranks.all_gather(own, whole).wait();
  return whole.slice(0, 0, all);
}

/// The rank's part of `all` [rows, H].
Tensor cut(const RankContext& context, const Tensor& all) {
  const RowPart part = part_of(context, all.dim(0));
  return all.slice(0, part.begin, part.rows);
}

}  // namespace

int64_t image_part_rows(const RankContext& context, int64_t all) {
  return part_of(context, all).rows;
}

Edge ImagePartSegment::inputs(const RankContext& context, const Batch& batch) const {
  EdgeTensor features = image_features_edge(context, all_rows(batch), hidden_);
  features.needs_gradient = needs_gradient_;
  return {features};
}

TensorSet ImagePartSegment::forward(RankContext& context, const Batch&, const TensorSet& in,
                                    SavedStore&) {
  return TensorSet(kImageFeatures, cut(context, in.get(kImageFeatures)));
}

TensorSet ImagePartSegment::backward_input(RankContext& context, const Batch& batch,
                                           const TensorSet& d_out, SavedStore&) {
  if (!needs_gradient_) return {};
  return TensorSet(kImageFeatures, gather(context, d_out.get(kImageFeatures), all_rows(batch),
                                          MemoryTag::activations));
}

Edge ImagePartsSegment::inputs(const RankContext& context, const Batch& batch) const {
  if (!batch.images.any()) return {};
  const int64_t all = batch.images.rows / context.groups.cp().size();
  EdgeTensor features = image_features_edge(context, image_part_rows(context, all), hidden_);
  features.needs_gradient = needs_gradient_;
  return {features};
}

TensorSet ImagePartsSegment::forward(RankContext& context, const Batch& batch, const TensorSet& in,
                                     SavedStore& saved) {
  if (!batch.images.any()) return {};
  const int64_t all = batch.images.rows / context.groups.cp().size();
  return TensorSet(kImageFeatures,
                   gather(context, in.get(kImageFeatures), all, saved.output_tag()));
}

TensorSet ImagePartsSegment::backward_input(RankContext& context, const Batch&,
                                            const TensorSet& d_out, SavedStore&) {
  if (!needs_gradient_) return {};
  return TensorSet(kImageFeatures, cut(context, d_out.get(kImageFeatures)));
}

}  // namespace viaduct
