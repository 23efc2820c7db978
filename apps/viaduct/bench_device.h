#pragma once
// The device whose ops `viaduct bench` measures, with its clock and the rates that ops are compared
// with.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/stopwatch.h"
#include "hardware/matmul_peak.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/dispatch.h"
#include "ops/table.h"
#include "run/cuda_backend.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace viaduct::cli {

/// Adds `--device cpu|cuda`.
CLI::Option* add_device_option(CLI::App& app, std::string& device);
/// Adds `--threads` of the cpu.
void add_threads_option(CLI::App& app, int& threads);
/// Adds `--rounds`; `what` is measured in each ("of each op"), if the text is to say so.
void add_rounds_option(CLI::App& app, int& rounds, const std::string& what = "");

class BenchDevice {
 public:
  /// "cpu" with `threads` threads (0: all cores) and the ops of `isa`, or "cuda": the first GPU.
  /// ConfigError or DeviceError as for a run with dist.device=cuda if there is none.
  BenchDevice(const std::string& device, int threads, CpuIsa isa = best_cpu_isa());

  Device& device() { return *device_; }
  const OpTable& ops() const { return ops_; }
  OpContext context() { return {*device_, ops_}; }
  /// Nothing on the cpu.
  const std::optional<GpuDescription>& gpu() const { return gpu_; }
  CpuIsa isa() const { return isa_; }
  /// "cuda, NVIDIA H200 (sm_90a; driver 13.0, …)" or "cpu, AMD EPYC …, 2 threads".
  std::string describe() const;
  /// Of the device's memory.
  double memory_bytes() const;
  /// Of the last cache, as the system or the driver says.
  int64_t cache_bytes() const;

  /// Seconds of the work that `work` gives to compute, by the device's clock.
  template <class Work>
  double seconds(Work&& work) {
    stopwatch_->start();
    work();
    return stopwatch_->stop();
  }
  /// Seconds of one call: the median of `rounds` rounds of about `round_seconds` each, after two
  /// calls to warm up. `call` gets its number, from 0. On a GPU a call that takes less than the
  /// host needs to launch it counts as long as its launch.
  template <class Call>
  double seconds_of_call(Call&& call, double round_seconds, int rounds);

  /// Normal random numbers, at most a million of them, repeated: generating them takes longer than
  /// most measurements.
  Tensor random(DType dtype, const Shape& shape, uint64_t stream, double mean = 0,
                double deviation = 0.1);
  /// A contiguous tensor of ids: whole numbers from 0 to `below` − 1.
  Tensor integers(DType dtype, int64_t count, int64_t below);
  /// The host's values on the device.
  Tensor on_device(const Tensor& host);

 private:
  std::optional<GpuDescription> gpu_;
  CpuIsa isa_;
  std::unique_ptr<Device> device_;
  OpTable ops_;
  std::unique_ptr<Stopwatch> stopwatch_;
};

template <class Call>
double BenchDevice::seconds_of_call(Call&& call, double round_seconds, int rounds) {
  seconds([&] { call(0); });
  const double once = seconds([&] { call(1); });
  const int calls = std::clamp(static_cast<int>(round_seconds / (once + 1e-9)), 1, 1'000'000);
  std::vector<double> times;
  int64_t made = 2;
  for (int round = 0; round < rounds; ++round) {
    const double all = seconds([&] {
      for (int i = 0; i < calls; ++i) call(made++);
    });
    times.push_back(all / calls);
  }
  std::sort(times.begin(), times.end());
  return std::max(times[times.size() / 2], 1e-12);
}

/// ConfigError if `bytes`, the memory for the options `what`, exceed the memory of the device, or
/// that of this machine without one.
void check_fits(double bytes, const std::string& what, const BenchDevice* device = nullptr);

/// Pairs of a query and a key that it sees in the causal attention of a document of `sequence`
/// tokens, at most `window` keys a query (0: all).
inline double causal_pairs(int64_t sequence, int64_t window = 0) {
  const auto all = static_cast<double>(sequence);
  const auto most = static_cast<double>(window > 0 ? std::min(window, sequence) : sequence);
  return most * (most + 1) / 2 + (all - most) * most;
}

/// The highest rate of matrix products in a format: on the cpu of its registers
/// (hardware/cpu/peak.h), on a GPU of the fastest square product of up to 8192 rows.
MatmulPeak product_ceiling(BenchDevice& device, DType dtype);

/// The bandwidth of copies between two places in the device's memory.
struct CopyCeiling {
  int64_t bytes = 0;  // read and written
  double gbytes_per_second = 0;
};
/// Of a copy of up to 1 GiB.
CopyCeiling copy_ceiling(BenchDevice& device);

}  // namespace viaduct::cli
