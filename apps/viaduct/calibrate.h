#pragma once
// Measures this machine with the trainer's own ops, for the table that a planner reads
// (hardware/calibration.h): what `viaduct bench --calibrate` does.

#include "hardware/calibration.h"

namespace viaduct::cli {

struct CalibrationEffort {
  /// About how long it takes; the longest products are left out where they would not fit.
  double seconds = 60;
  int threads = 1;
};

Calibration calibrate(const CalibrationEffort& effort);

}  // namespace viaduct::cli
