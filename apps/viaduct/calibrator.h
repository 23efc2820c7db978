#pragma once
// What the measurements of a calibration share: the device, operands, and how a call is timed.

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "calibrate.h"
#include "device/device.h"
#include "operands_in_turn.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"

namespace viaduct::cli {

/// As the table names it.
inline const char* calibrated_name(DType dtype) {
  return dtype == DType::bf16 ? "bf16" : "fp32";
}

/// Measures everything in the same way: random operands, one warm-up call, the median of a few
/// rounds.
class Calibrator {
 public:
  explicit Calibrator(const CalibrationEffort& effort);

  CalibratedMachine machine() const;
  void measure_peaks(std::vector<CalibratedPeak>& rows);
  void measure_gemm(std::vector<CalibratedGemm>& rows);
  void measure_attention(std::vector<CalibratedAttention>& rows);
  void measure_streams(std::vector<CalibratedStream>& rows);
  CalibratedLaunch measure_launch();

 private:
  Tensor empty(DType dtype, const Shape& shape) {
    return context_.allocate(dtype, shape, MemoryTag::other);
  }
  /// Normal random numbers, at most a million of them, repeated: generating them takes longer than
  /// most measurements.
  Tensor random(DType dtype, const Shape& shape, uint64_t stream, double mean = 0);
  /// As many as the calls of a measurement take in turn.
  OperandsInTurn in_turn(DType dtype, Shape shape, int64_t count, uint64_t stream,
                         double mean = 0) {
    shape[0] *= count;
    return {random(dtype, shape, stream, mean), count};
  }
  /// Seconds of one call; `call` gets its number.
  template <class Call>
  double seconds(Call&& call);
  template <class Call>
  Cost cost(Call&& call);
  void measure_products(std::vector<CalibratedGemm>& rows, DType dtype, int64_t m, int64_t n,
                        int64_t k);
  void measure_stream(std::vector<CalibratedStream>& rows, const char* kind, int64_t bytes);

  std::unique_ptr<Device> device_;
  OpTable ops_;
  OpContext context_{*device_, ops_};
  double share_;  // fraction of the minute that the whole grid takes
  double round_seconds_, most_flops_;
  int64_t cache_bytes_;
};

inline constexpr int kCalibrationRounds = 3;

template <class Call>
double Calibrator::seconds(Call&& call) {
  call(0);
  double begin = steady_seconds();
  call(1);
  const int calls = std::clamp(static_cast<int>(round_seconds_ / (steady_seconds() - begin + 1e-9)),
                               1, 1'000'000);
  std::vector<double> rounds;
  int64_t made = 2;
  for (int round = 0; round < kCalibrationRounds; ++round) {
    begin = steady_seconds();
    for (int i = 0; i < calls; ++i) call(made++);
    rounds.push_back((steady_seconds() - begin) / calls);
  }
  std::sort(rounds.begin(), rounds.end());
  return std::max(rounds[kCalibrationRounds / 2], 1e-12);
}

template <class Call>
Cost Calibrator::cost(Call&& call) {
  StepRecord record;
  device_->set_record(&record);
  call();
  device_->set_record(nullptr);
  return record.total_cost();
}

}  // namespace viaduct::cli
