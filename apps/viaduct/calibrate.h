#pragma once
// Measures this machine, or its GPU, with the trainer's own ops, for the table that a planner reads
// (hardware/calibration.h): the work of `viaduct bench --calibrate`.

#include <string>

#include "hardware/calibration.h"

namespace viaduct::cli {

struct CalibrationEffort {
  /// Approximate duration; the longest products are left out if they do not fit.
  double seconds = 60;
  int threads = 1;             // of the cpu, 0: all cores
  std::string device = "cpu";  // "cuda": the first GPU
};

Calibration calibrate(const CalibrationEffort& effort);

}  // namespace viaduct::cli
