#pragma once
// A time by which work has to end, and the error of work that is given up then. Long work asks for
// it at each of its pieces.

#include <limits>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"

namespace viaduct {

/// Work was given up because its deadline had passed.
class DeadlineError : public Error {
 public:
  using Error::Error;
};

class Deadline {
 public:
  /// Returns seconds since an arbitrary start.
  using Clock = double (*)();

  /// None: it never passes.
  Deadline() = default;
  /// At a time of `clock`.
  static Deadline at(double seconds, Clock clock = steady_seconds) {
    Deadline deadline;
    deadline.seconds_ = seconds, deadline.clock_ = clock;
    return deadline;
  }

  bool passed() const { return is_set() && clock_() > seconds_; }
  /// DeadlineError that names the work if it has passed.
  void check(std::string_view work) const {
    VIADUCT_CHECK(DeadlineError, !passed(), "{}: given up, its time is over", work);
  }
  bool is_set() const { return seconds_ < std::numeric_limits<double>::infinity(); }

 private:
  double seconds_ = std::numeric_limits<double>::infinity();
  Clock clock_ = steady_seconds;
};

}  // namespace viaduct
