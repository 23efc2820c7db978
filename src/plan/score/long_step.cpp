#include "plan/score/long_step.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace viaduct {
namespace {

// The pipeline is filled in the first round or two, and drained in the last one.
constexpr int64_t kRounds = 4;
constexpr int64_t kSteadyRound = 2;

/// When the first phase of a micro-batch begins.
double begin_of(const StageTimeline& timeline, int64_t micro_batch) {
  double begin = std::numeric_limits<double>::infinity();
  for (const PhaseSpan& phase : timeline.phases)
    if (phase.micro_batch == micro_batch) begin = std::min(begin, phase.span.begin);
  VIADUCT_CHECK(Error, begin < std::numeric_limits<double>::infinity(),
                "prediction of a long step: micro-batch {} has no phase in the last stage",
                micro_batch);
  return begin;
}

}  // namespace

bool LongStep::is_shortened() const {
  return micro_batches_ > (kRounds + 1) * stages_ && micro_batches_ % stages_ == 0;
}

int64_t LongStep::shown() const {
  return is_shortened() ? kRounds * stages_ : micro_batches_;
}

double LongStep::speed_share(const Prediction& prediction) const {
  if (!is_shortened()) return 1;
  const StageTimeline& last = prediction.stages.back().timeline;
  const double round =
      begin_of(last, (kSteadyRound + 1) * stages_) - begin_of(last, kSteadyRound * stages_);
  const auto more = static_cast<double>(micro_batches_ - shown());
  const double seconds = prediction.step_seconds + round * more / static_cast<double>(stages_);
  return static_cast<double>(micro_batches_) / static_cast<double>(shown()) *
         prediction.step_seconds / seconds;
}

}  // namespace viaduct
