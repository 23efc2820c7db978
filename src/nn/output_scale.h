#pragma once
// The end of a block whose output a number of its own multiplies (Gemma 4, `layer_scalar`). The
// number comes with the weights; nothing trains it.

#include <memory>
#include <utility>

#include "nn/segment.h"

namespace viaduct {

class OutputScaleSegment final : public StreamSegment {
 public:
  /// `number` [1]; `features`: H.
  OutputScaleSegment(std::shared_ptr<const Parameter> number, int64_t features)
      : number_(std::move(number)), features_(features) {}

  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet& d_out,
                           SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override {}
  std::vector<const Parameter*> parameters() const override { return {number_.get()}; }
  std::string_view name() const override { return "output_scale"; }
  int64_t features() const override { return features_; }

 private:
  /// number · x, [rows, H], in the stream's format.
  Tensor scaled(RankContext& context, const Tensor& x, MemoryTag tag) const;

  std::shared_ptr<const Parameter> number_;
  int64_t features_;
};

}  // namespace viaduct
