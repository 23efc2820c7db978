#include "calibrate.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <fstream>
#include <thread>

#include "calibrator.h"
#include "collective_timing.h"
#include "comm/world.h"
#include "hardware/cpu/peak.h"
#include "hardware/cpu_features.h"

namespace viaduct::cli {
namespace {

constexpr int64_t kDrawn = 999'983;  // prime: no row starts at a repeat

/// Bytes of memory, from /proc/meminfo; 1 if unknown.
int64_t memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  int64_t kibibytes = 0;
  file >> name >> kibibytes;
  return name == "MemTotal:" && file.good() ? std::max<int64_t>(1, kibibytes * 1024) : 1;
}

/// Bytes of the last cache, as the system says.
int64_t last_cache_bytes() {
  constexpr int64_t kUnknown = int64_t{32} << 20, kMost = int64_t{64} << 20;
  const int64_t bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? std::min(bytes, kMost) : kUnknown;
}

void measure_all_reduce(std::vector<CalibratedAllReduce>& rows, double seconds) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::vector<int> counts{2};
  if (cores > 2) counts.push_back(cores);
  for (int ranks : counts) {
    for (int64_t bytes : {1 << 12, 1 << 16, 1 << 20, 1 << 24}) {
      if (static_cast<double>(bytes) > seconds * 0x1p20) continue;
      CollectiveProblem problem;
      problem.bytes = bytes;
      problem.rounds = std::max(1, static_cast<int>(seconds / 60 * 9));
      CollectiveTiming timing;
      run_thread_ranks(ranks, {}, [&](std::shared_ptr<Communicator> world) {
        const CollectiveTiming mine = time_collective(*world, problem);
        if (world->rank() == 0) timing = mine;
      });
      rows.push_back({ranks, bytes, timing.microseconds, timing.bus_gbytes_per_second});
    }
  }
}

}  // namespace

Calibrator::Calibrator(const CalibrationEffort& effort)
    : device_(make_cpu_device(effort.threads)),
      ops_(cpu_ops(best_cpu_isa())),
      share_(effort.seconds / 60),
      round_seconds_(share_ * 0.03),
      most_flops_(share_ * 18e9),
      // A short calibration has no time to fill more.
      cache_bytes_(static_cast<int64_t>(std::min(1.0, 4 * share_) *
                                        static_cast<double>(last_cache_bytes()))) {}

Tensor Calibrator::random(DType dtype, const Shape& shape, uint64_t stream, double mean) {
  const Tensor x = empty(dtype, shape);
  const int64_t drawn = std::min(x.elements(), kDrawn), bytes = drawn * dtype_bytes(dtype);
  const Tensor start = x.view({x.elements()}).slice(0, 0, drawn);
  random_normal(context_, {start, mean, 0.1, {1, stream}, 0, 0, drawn});
  for (int64_t at = bytes; at < x.bytes(); at += bytes) {
    std::memcpy(static_cast<char*>(x.raw()) + at, x.raw(),
                static_cast<size_t>(std::min(bytes, x.bytes() - at)));
  }
  return x;
}

CalibratedMachine Calibrator::machine() const {
  return {describe(detect_cpu_features()),
          std::string(cpu_isa_name(best_cpu_isa())),
          std::max<int64_t>(1, std::thread::hardware_concurrency()),
          device_->pool().threads(),
          memory_bytes(),
          fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))};
}

void Calibrator::measure_peaks(std::vector<CalibratedPeak>& rows) {
  for (DType dtype : {DType::bf16, DType::f32}) {
    const MatmulPeak peak = measure_matmul_peak(device_->pool(), dtype, best_cpu_isa());
    rows.push_back({calibrated_name(dtype), peak.name, peak.tflops});
  }
}

CalibratedLaunch Calibrator::measure_launch() {
  const Tensor x = random(DType::f32, {16}, 1), y = random(DType::f32, {16}, 2);
  const double op = seconds([&](int64_t) { scale(context_, {x, y, 0.5}); });
  const double parallel = seconds(
      [&](int64_t) { device_->pool().run(device_->pool().threads(), [](int64_t, int) {}); });
  return {op * 1e6, parallel * 1e6};
}

Calibration calibrate(const CalibrationEffort& effort) {
  Calibration table;
  {
    Calibrator calibrator(effort);
    table.machine = calibrator.machine();
    calibrator.measure_peaks(table.peaks);
    calibrator.measure_gemm(table.gemm);
    calibrator.measure_attention(table.attention);
    calibrator.measure_streams(table.streams);
    table.launch = calibrator.measure_launch();
  }
  measure_all_reduce(table.all_reduce, effort.seconds);
  return table;
}

}  // namespace viaduct::cli
