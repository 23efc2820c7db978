#pragma once
// Hands the residual stream of a tower on to a later reader, beside the stream itself.

#include "nn/segment.h"

namespace viaduct {

class FeatureTapSegment final : public Segment {
 public:
  /// `output`: the name of what is read later, which is the stream [T, features]. `last`: the
  /// stream ends here.
  FeatureTapSegment(std::string output, int64_t features, bool last)
      : output_(std::move(output)), features_(features), last_(last) {}

  Edge inputs(const RankContext& context, const Batch& batch) const override {
    return {stream_edge(context, batch, features_)};
  }
  std::vector<std::string_view> outputs() const override;
  std::vector<std::string_view> read_for_outputs() const override { return {kHidden}; }
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  /// The sum of both readers' gradients.
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override {}
  std::vector<const Parameter*> parameters() const override { return {}; }
  std::string_view name() const override { return "feature_tap"; }

 private:
  std::string output_;
  int64_t features_;
  bool last_;
};

}  // namespace viaduct
