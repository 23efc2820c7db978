#include "nn/encoded_parts.h"

#include "nn/encoder_rows.h"
#include "nn/split_rows.h"

namespace viaduct {
namespace {

/// Rows of the whole output.
int64_t all_rows(const RankContext& context, const Batch& rows) {
  return context.groups.cp().size() * rows.stream_tokens;
}

}  // namespace

EdgeTensor encoded_part_edge(const RankContext& context, const Batch& rows, int64_t hidden,
                             bool needs_gradient) {
  EdgeTensor edge = encoded_edge(context, rows, hidden, needs_gradient);
  edge.shape = {split_rows(context, all_rows(context, rows)), hidden};
  return edge;
}

Edge EncodedPartSegment::inputs(const RankContext& context, const Batch& batch) const {
  return {encoded_edge(context, batch, hidden_, needs_gradient_)};
}

std::vector<std::string_view> EncodedPartSegment::outputs() const {
  return {kEncoded};
}

TensorSet EncodedPartSegment::forward(RankContext& context, const Batch&, const TensorSet& in,
                                      SavedStore&) {
  return TensorSet(kEncoded, cut_split_rows(context, in.get(kEncoded)));
}

TensorSet EncodedPartSegment::backward_input(RankContext& context, const Batch& batch,
                                             const TensorSet& d_out, SavedStore&) {
  if (!needs_gradient_) return {};
  return TensorSet(kEncoded, gather_split_rows(context, d_out.get(kEncoded),
                                               all_rows(context, batch), MemoryTag::activations));
}

Edge EncodedPartsSegment::inputs(const RankContext& context, const Batch& batch) const {
  const EncoderRows& from = encoder_rows(batch);
  if (!from.encodes()) return {};
  return {encoded_part_edge(context, from.rows, hidden_, needs_gradient_)};
}

std::vector<std::string_view> EncodedPartsSegment::outputs() const {
  return {kEncoded};
}

bool EncodedPartsSegment::makes(std::string_view, const Batch& batch) const {
  return encoder_rows(batch).encodes();
}

TensorSet EncodedPartsSegment::forward(RankContext& context, const Batch& batch,
                                       const TensorSet& in, SavedStore& saved) {
  const EncoderRows& from = encoder_rows(batch);
  if (!from.encodes()) return {};
  return TensorSet(kEncoded, gather_split_rows(context, in.get(kEncoded),
                                               all_rows(context, from.rows), saved.output_tag()));
}

TensorSet EncodedPartsSegment::backward_input(RankContext& context, const Batch&,
                                              const TensorSet& d_out, SavedStore&) {
  if (!needs_gradient_) return {};
  return TensorSet(kEncoded, cut_split_rows(context, d_out.get(kEncoded)));
}

}  // namespace viaduct
