#include "calibrate.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "calibrator.h"
#include "collective_timing.h"
#include "comm/world.h"
#include "hardware/cpu_features.h"
#include "ops/elementwise.h"

namespace viaduct::cli {
namespace {

/// Bytes of memory, from /proc/meminfo; 1 if unknown.
int64_t memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  int64_t kibibytes = 0;
  file >> name >> kibibytes;
  return name == "MemTotal:" && file.good() ? std::max<int64_t>(1, kibibytes * 1024) : 1;
}

/// Ranks of so many threads that are measured at the same time.
int ranks_of(const CalibrationEffort& effort, int threads) {
  const bool gpu = effort.device != "cpu";
  VIADUCT_CHECK(ConfigError, !gpu || effort.ranks == 0,
                "--ranks {} with --device {} has no effect: one GPU is measured", effort.ranks,
                effort.device);
  if (gpu) return 1;
  return effort.ranks > 0 ? effort.ranks : std::max(1, default_pool_threads(1) / threads);
}

void measure_all_reduce(std::vector<CalibratedAllReduce>& rows, double seconds) {
  const int cores = default_pool_threads(1);
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

template <class Figure>
double median_of(const std::vector<Calibration>& passes, Figure&& figure) {
  std::vector<double> values;
  for (const Calibration& pass : passes) values.push_back(figure(pass));
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Gives each of `rows` the median of the same row in `passes`.
template <class Row>
void take_medians(std::vector<Row>& rows, const std::vector<Calibration>& passes,
                  std::vector<Row> Calibration::*list, double Row::*figure) {
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i].*figure =
        median_of(passes, [&](const Calibration& pass) { return (pass.*list)[i].*figure; });
}

/// The median of each figure that all passes have; their rows are the same.
Calibration medians(const std::vector<Calibration>& passes) {
  Calibration table = passes.front();
  take_medians(table.gemm, passes, &Calibration::gemm, &CalibratedGemm::tflops);
  take_medians(table.attention, passes, &Calibration::attention, &CalibratedAttention::tflops);
  take_medians(table.streams, passes, &Calibration::streams, &CalibratedStream::gbytes_per_second);
  for (double CalibratedLaunch::*figure :
       {&CalibratedLaunch::op_microseconds, &CalibratedLaunch::parallel_microseconds})
    table.launch.*figure =
        median_of(passes, [&](const Calibration& pass) { return pass.launch.*figure; });
  return table;
}

}  // namespace

Calibrator::Calibrator(const CalibrationEffort& effort, Communicator& together)
    : together_(together),
      bench_(effort.device, effort.threads),
      share_(effort.seconds / 60),
      round_seconds_(share_ * (bench_.gpu() ? 0.03 : 0.015)),
      most_flops_(share_ * 18e9),
      // A short calibration of a cpu has no time to fill more.
      cache_bytes_(bench_.gpu() ? bench_.cache_bytes()
                                : static_cast<int64_t>(std::min(1.0, 4 * share_) *
                                                       static_cast<double>(bench_.cache_bytes()))) {
}

CalibratedMachine Calibrator::machine() {
  CalibratedMachine machine{describe(detect_cpu_features()),
                            std::string(cpu_isa_name(best_cpu_isa())),
                            std::max<int64_t>(1, std::thread::hardware_concurrency()),
                            bench_.device().pool().threads(),
                            memory_bytes(),
                            fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))),
                            together_.size(),
                            {},
                            {}};
  if (const auto& gpu = bench_.gpu()) {
    machine.kernels = bench_.ops().traits.name;
    machine.memory_bytes = gpu->memory_bytes;
    machine.gpu = gpu->name;
    machine.libraries = gpu->libraries;
  }
  return machine;
}

void Calibrator::measure_peaks(std::vector<CalibratedPeak>& rows) {
  for (DType dtype : {DType::bf16, DType::f32}) {
    together_.barrier();
    const MatmulPeak peak = product_ceiling(bench_, dtype);
    rows.push_back({calibrated_name(dtype), peak.name, peak.tflops});
  }
}

CalibratedLaunch Calibrator::measure_launch() {
  const Tensor x = random(DType::f32, {16}, 1), y = random(DType::f32, {16}, 2);
  const auto op = [&](int64_t) { scale(context_, {x, y, 0.5}); };
  CalibratedLaunch launch;
  launch.op_microseconds = seconds(op) * 1e6;
  if (bench_.gpu()) {
    std::vector<double> waits;
    for (int i = 0; i < 100; ++i) {
      const double begin = steady_seconds();
      bench_.seconds([&] { op(i); });
      waits.push_back(steady_seconds() - begin);
    }
    std::sort(waits.begin(), waits.end());
    launch.parallel_microseconds = waits[waits.size() / 2] * 1e6;
    return launch;
  }
  ThreadPool& pool = bench_.device().pool();
  launch.parallel_microseconds =
      seconds([&](int64_t) { pool.run(pool.threads(), [](int64_t, int) {}); }) * 1e6;
  return launch;
}

Calibration calibrate(const CalibrationEffort& effort) {
  Calibration table;
  const int threads = effort.threads > 0 ? effort.threads : default_pool_threads(1);
  const WorldOptions world{.threads_per_rank = threads};
  run_thread_ranks(ranks_of(effort, threads), world, [&](std::shared_ptr<Communicator> together) {
    Calibrator calibrator(effort, *together);
    std::vector<Calibration> passes(calibrator.gpu() ? 1 : kCpuPasses);
    Calibration& first = passes.front();
    first.machine = calibrator.machine();
    calibrator.measure_peaks(first.peaks);
    for (Calibration& pass : passes) {
      calibrator.measure_gemm(pass.gemm);
      calibrator.measure_attention(pass.attention);
      calibrator.measure_streams(pass.streams);
      pass.launch = calibrator.measure_launch();
    }
    if (together->rank() == 0) table = medians(passes);
  });
  // Ranks on GPUs exchange over links that one GPU does not have.
  if (table.machine.gpu.empty()) measure_all_reduce(table.all_reduce, effort.seconds);
  return table;
}

}  // namespace viaduct::cli
