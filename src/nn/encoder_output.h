#pragma once
// The end of an encoder: its final norm, and the rows of all context ranks, which have whole ones
// each. What the decoder's cross attention reads.

#include "nn/norm.h"
#include "nn/segment.h"

namespace viaduct {

class EncoderOutputSegment final : public Segment {
 public:
  /// `needs_gradient`: the norm or something in front of it trains.
  EncoderOutputSegment(Norm norm, bool needs_gradient)
      : norm_(std::move(norm)), needs_gradient_(needs_gradient) {}

  Edge inputs(const RankContext& context, const Batch& batch) const override;
  std::vector<std::string_view> outputs() const override;
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override {}
  std::vector<const Parameter*> parameters() const override;
  std::vector<const Parameter*> read_backward() const override;
  std::string_view name() const override { return "encoder_output"; }

 private:
  Norm norm_;
  bool needs_gradient_;
};

}  // namespace viaduct
