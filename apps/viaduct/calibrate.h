#pragma once
// Measures this machine with the trainer's own ops, for the table that a planner reads
// (hardware/calibration.h): the work of `viaduct bench --calibrate`.

#include "hardware/calibration.h"

namespace viaduct::cli {

struct CalibrationEffort {
  /// Approximate duration; the longest products are left out if they do not fit.
  double seconds = 60;
  int threads = 1;
};

Calibration calibrate(const CalibrationEffort& effort);

}  // namespace viaduct::cli
