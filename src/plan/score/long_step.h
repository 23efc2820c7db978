#pragma once
// Steps of many micro-batches, from the prediction of a shorter step: between warm-up and drain all
// rounds of a pipeline are the same. A round is as many micro-batches as there are stages.

#include <cstdint>

#include "plan/predict.h"

namespace viaduct {

class LongStep {
 public:
  LongStep(int64_t micro_batches, int64_t stages)
      : micro_batches_(micro_batches), stages_(stages) {}

  /// False: the step is short, or its rounds are not whole, which the trainer may refuse.
  bool is_shortened() const;
  /// Micro-batches of the step that is predicted instead.
  int64_t shown() const;
  /// Tokens a second of the whole step, as a share of those of the prediction of `shown()`
  /// micro-batches, which has timelines.
  double speed_share(const Prediction& prediction) const;

 private:
  int64_t micro_batches_, stages_;
};

}  // namespace viaduct
