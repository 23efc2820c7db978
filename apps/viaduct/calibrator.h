#pragma once
// What the measurements of a calibration share: the device, operands, and how a call is timed.

#include <vector>

#include "bench_device.h"
#include "calibrate.h"
#include "comm/communicator.h"
#include "operands_in_turn.h"

namespace viaduct::cli {

/// How often a cpu's whole grid is measured; a row is the median.
inline constexpr int kCpuPasses = 3;

/// As the table names it.
inline const char* calibrated_name(DType dtype) {
  return dtype == DType::bf16 ? "bf16" : "fp32";
}

/// Measures everything in the same way: random operands, two calls to warm up, then on a GPU the
/// median of a few rounds and on a cpu one round, because there the whole grid is measured several
/// times (`kCpuPasses`): other work on the machine lasts longer than the rounds of one call. The
/// ranks of `together` begin each measurement at the same time: as in a run, they share caches and
/// the bandwidth of memory.
class Calibrator {
 public:
  Calibrator(const CalibrationEffort& effort, Communicator& together);

  bool gpu() const { return bench_.gpu().has_value(); }
  CalibratedMachine machine();
  void measure_peaks(std::vector<CalibratedPeak>& rows);
  void measure_gemm(std::vector<CalibratedGemm>& rows);
  void measure_attention(std::vector<CalibratedAttention>& rows);
  void measure_streams(std::vector<CalibratedStream>& rows);
  CalibratedLaunch measure_launch();

 private:
  Tensor empty(DType dtype, const Shape& shape) {
    return context_.allocate(dtype, shape, MemoryTag::other);
  }
  Tensor random(DType dtype, const Shape& shape, uint64_t stream, double mean = 0) {
    return bench_.random(dtype, shape, stream, mean);
  }
  /// As many as the calls of a measurement take in turn.
  OperandsInTurn in_turn(DType dtype, Shape shape, int64_t count, uint64_t stream,
                         double mean = 0) {
    shape[0] *= count;
    return {random(dtype, shape, stream, mean), count};
  }
  /// Seconds of one call; `call` gets its number.
  template <class Call>
  double seconds(Call&& call) {
    together_.barrier();
    return bench_.seconds_of_call(call, round_seconds_, bench_.gpu() ? kGpuRounds : 1);
  }
  /// The longest call that the calibration has time for. On the cpu it is fixed; on a GPU it
  /// follows from the fastest call so far, so sizes are tried in ascending order.
  double flops_limit() const { return bench_.gpu() ? best_rate_ * round_seconds_ : most_flops_; }
  void note_rate(double flops, double time) { best_rate_ = std::max(best_rate_, flops / time); }
  template <class Call>
  Cost cost(Call&& call);
  void measure_products(std::vector<CalibratedGemm>& rows, DType dtype, int64_t m, int64_t n,
                        int64_t k);
  /// Of `documents` documents of S tokens, with heads of D.
  void measure_attention_of(std::vector<CalibratedAttention>& rows, DType dtype, int64_t S,
                            int64_t documents, int64_t heads, int64_t D);
  void measure_stream(std::vector<CalibratedStream>& rows, const char* kind, int64_t bytes);

  static constexpr int kGpuRounds = 3;

  Communicator& together_;
  BenchDevice bench_;
  OpContext context_ = bench_.context();
  double share_;  // fraction of the minute that the whole grid takes
  double round_seconds_, most_flops_, best_rate_ = 0;
  int64_t cache_bytes_;
};

template <class Call>
Cost Calibrator::cost(Call&& call) {
  StepRecord record;
  bench_.device().set_record(&record);
  call();
  bench_.device().set_record(nullptr);
  return record.total_cost();
}

}  // namespace viaduct::cli
