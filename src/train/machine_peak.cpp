#include "train/machine_peak.h"

#include <utility>

#include "base/clock.h"
#include "run/rank_device.h"

namespace viaduct {

// The peak is that of the cpu's cores: it says nothing about a run on a GPU. FP64 runs on kernels
// that are made for checks: they have rates, but no MFU.
MachinePeak::MachinePeak(Device& device, const RunConfig& config, DType activation,
                         PeakEffort effort)
    : device_(device),
      config_(config),
      activation_(activation),
      measures_(config.logger.log_throughput && activation != DType::f64 &&
                device.kind() == DeviceKind::cpu) {
  if (measures_) peak_ = measure(effort);
}

MatmulPeak MachinePeak::measure(PeakEffort effort) {
  const MatmulPeak measured =
      measure_matmul_peak(device_.pool(), activation_, cpu_isa_of(config_.dist), effort);
  measured_at_ = steady_seconds();
  return measured;
}

void MachinePeak::update(double tflops_per_rank) {
  // Ten milliseconds per measurement: at most 1/500 of a run.
  constexpr double kInterval = 5;
  // The first measurement may have been taken in a bad moment, so the first line waits for another.
  const bool first = !std::exchange(confirmed_, true);
  if (!first && steady_seconds() - measured_at_ < kInterval && tflops_per_rank <= peak_.tflops)
    return;
  peak_.keep_best(measure(PeakEffort::glance));
}

}  // namespace viaduct
