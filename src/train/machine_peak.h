#pragma once
// The machine's peak rate of matrix products while a run goes on: the base of MFU.

#include "device/device.h"
#include "hardware/cpu/peak.h"
#include "hardware/matmul_peak.h"
#include "run/run_config.h"

namespace viaduct {

class MachinePeak {
 public:
  /// Measures it where it is asked for. `activation`: the format of the run's products; `effort`:
  /// how long this first measurement takes. `device` and `config` outlive it.
  MachinePeak(Device& device, const RunConfig& config, DType activation, PeakEffort effort);

  /// Whether steps are compared with it: not on a GPU, in FP64, or without logger.log_throughput.
  bool measures() const { return measures_; }
  /// Measures again, if the last time is long ago or a step, at `tflops_per_rank`, was faster.
  void update(double tflops_per_rank);
  /// The highest measured; unknown where nothing is measured.
  const MatmulPeak& value() const { return peak_; }

 private:
  MatmulPeak measure(PeakEffort effort);

  Device& device_;
  const RunConfig& config_;
  DType activation_;
  bool measures_;
  MatmulPeak peak_;
  double measured_at_ = 0;
  bool confirmed_ = false;  // measured twice at least
};

}  // namespace viaduct
