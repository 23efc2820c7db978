#pragma once
// The output of an encoder over tensor ranks, where those of the encoder are more or fewer than
// those of the decoder and each has the whole stream (nn/split_rows.h). Ranks that share the stream
// by sequence parallelism need none of this: the parts of messages are then those of the ranks.

#include "nn/segment.h"

namespace viaduct {

/// At the end of an encoder with more tensor ranks: the rank's part of the rows. `needs_gradient`:
/// something in front of it trains.
class EncodedPartSegment final : public Segment {
 public:
  EncodedPartSegment(int64_t hidden, bool needs_gradient)
      : hidden_(hidden), needs_gradient_(needs_gradient) {}

  Edge inputs(const RankContext& context, const Batch& batch) const override;
  std::vector<std::string_view> outputs() const override;
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override {}
  std::vector<const Parameter*> parameters() const override { return {}; }
  std::string_view name() const override { return "encoded_part"; }

 private:
  int64_t hidden_;
  bool needs_gradient_;
};

/// In front of a decoder with more tensor ranks: all rows from the parts.
class EncodedPartsSegment final : public Segment {
 public:
  EncodedPartsSegment(int64_t hidden, bool needs_gradient)
      : hidden_(hidden), needs_gradient_(needs_gradient) {}

  Edge inputs(const RankContext& context, const Batch& batch) const override;
  std::vector<std::string_view> outputs() const override;
  bool makes(std::string_view output, const Batch& batch) const override;
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override {}
  std::vector<const Parameter*> parameters() const override { return {}; }
  std::string_view name() const override { return "encoded_parts"; }

 private:
  int64_t hidden_;
  bool needs_gradient_;
};

/// What passes between the two sides of an encoder's output; as `encoded_edge`.
EdgeTensor encoded_part_edge(const RankContext& context, const Batch& rows, int64_t hidden,
                             bool needs_gradient);

}  // namespace viaduct
