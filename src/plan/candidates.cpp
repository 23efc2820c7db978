// What a search says of the layouts that fit.

#include <algorithm>

#include "plan/search.h"

namespace viaduct {

int64_t Candidate::peak_bytes() const {
  int64_t peak = 0;
  for (const StagePrediction& stage : prediction.stages)
    peak = std::max(peak, stage.run.peak.bytes);
  return peak;
}

double Candidate::slack_bytes() const {
  return prediction.capacity_bytes - static_cast<double>(peak_bytes());
}

bool on_pareto_front(const SearchResult& result, const Candidate& candidate) {
  return std::none_of(result.candidates.begin(), result.candidates.end(),
                      [&](const Candidate& other) {
                        return other.prediction.step_seconds < candidate.prediction.step_seconds &&
                               other.slack_bytes() > candidate.slack_bytes();
                      });
}

bool ties_with_best(const SearchResult& result, const Candidate& candidate, double tie_share) {
  const double best = result.candidates.front().prediction.step_seconds;
  return candidate.prediction.step_seconds <= best * (1 + tie_share);
}

}  // namespace viaduct
