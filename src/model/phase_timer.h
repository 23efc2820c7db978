#pragma once
// Wall-clock time of the phases of a step.

#include "ops/dispatch.h"

namespace viaduct {

/// Seconds, summed since the last reset.
struct PhaseSeconds {
  double forward = 0, backward = 0, optimizer = 0;
};

/// Adds the time of a scope to a sum.
class PhaseTimer {
 public:
  explicit PhaseTimer(double& sum) : sum_(sum), begin_(detail::seconds_now()) {}
  ~PhaseTimer() { sum_ += detail::seconds_now() - begin_; }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  double& sum_;
  double begin_;
};

}  // namespace viaduct
