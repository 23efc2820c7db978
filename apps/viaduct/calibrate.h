#pragma once
// Measures this machine, or its GPU, with the trainer's own ops, for the table that a planner reads
// (hardware/calibration.h): the work of `viaduct bench --calibrate`.

#include <string>

#include "hardware/calibration.h"

namespace viaduct::cli {

struct CalibrationEffort {
  /// Approximate duration; the longest products are left out if they do not fit.
  double seconds = 60;
  int threads = 1;             // of a rank on the cpu, 0: all cores
  int ranks = 0;               // on the cpu at the same time, 0: as many as it has cores for
  std::string device = "cpu";  // "cuda": the first GPU
};

Calibration calibrate(const CalibrationEffort& effort);

}  // namespace viaduct::cli
