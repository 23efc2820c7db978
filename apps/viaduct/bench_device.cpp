#include "bench_device.h"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/physical_memory.h"
#include "base/units.h"
#include "hardware/cpu_features.h"
#include "ops/elementwise.h"
#include "run/rank_device.h"

namespace viaduct::cli {
namespace {

constexpr int64_t kDrawn = 999'983;  // prime: no row starts at a repeat

/// Bytes of the last cache of the cpu, as the system says.
int64_t cpu_cache_bytes() {
  constexpr int64_t kUnknown = int64_t{32} << 20, kMost = int64_t{64} << 20;
  const int64_t bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? std::min(bytes, kMost) : kUnknown;
}

}  // namespace

CLI::Option* add_device_option(CLI::App& app, std::string& device) {
  return app
      .add_option("--device", device,
                  "What runs the ops: cpu, or cuda, a GPU, by the library that dist.device=cuda "
                  "loads and events on the GPU")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
}

void add_threads_option(CLI::App& app, int& threads) {
  app.add_option("--threads", threads, "Threads of the cpu (0: all cores)")
      ->check(CLI::Range(0, 4096));
}

void add_rounds_option(CLI::App& app, int& rounds, const std::string& what) {
  app.add_option("--rounds", rounds,
                 "Measured rounds" + (what.empty() ? "" : " " + what) + "; the median is reported")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
}

BenchDevice::BenchDevice(const std::string& device, int threads, CpuIsa isa) : isa_(isa) {
  if (device == "cuda") {
    VIADUCT_CHECK(ConfigError, threads == 0,
                  "--threads {} with --device cuda has no effect: a GPU runs the ops", threads);
    const CudaBackend& backend = cuda_backend();
    backend.use_gpu(0);
    gpu_ = backend.describe_gpu();
    device_ = backend.make_device({});
    ops_ = backend.ops(backend.target());
    stopwatch_ = backend.make_stopwatch(*device_);
    return;
  }
  device_ = make_cpu_device(threads > 0 ? threads : default_pool_threads(1));
  ops_ = cpu_ops(isa);
  stopwatch_ = make_host_stopwatch();
}

std::string BenchDevice::describe() const {
  if (gpu_) return fmt::format("{} ({}; {})", gpu_->name, ops_.traits.name, gpu_->libraries);
  return fmt::format("{} ({}; {})", viaduct::describe(detect_cpu_features()), ops_.traits.name,
                     counted(device_->pool().threads(), "thread"));
}

double BenchDevice::memory_bytes() const {
  return gpu_ ? static_cast<double>(gpu_->memory_bytes) : physical_memory_bytes();
}

int64_t BenchDevice::cache_bytes() const {
  return gpu_ ? std::max<int64_t>(1, gpu_->cache_bytes) : cpu_cache_bytes();
}

Tensor BenchDevice::random(DType dtype, const Shape& shape, uint64_t stream, double mean,
                           double deviation) {
  OpContext on = context();
  const Tensor x = on.allocate(dtype, shape, MemoryTag::other);
  const Tensor all = x.view({x.elements()});
  const int64_t drawn = std::min(x.elements(), kDrawn);
  const Tensor start = all.slice(0, 0, drawn);
  random_normal(on, {start, mean, deviation, {1, stream}, 0, 0, drawn});
  for (int64_t at = drawn; at < x.elements(); at += drawn) {
    const int64_t count = std::min(drawn, x.elements() - at);
    copy(on, {start.slice(0, 0, count), all.slice(0, at, count)});
  }
  return x;
}

Tensor BenchDevice::on_device(const Tensor& host) {
  const Tensor tensor = device_->allocate(host.dtype(), host.shape(), MemoryTag::other);
  device_->copy_from_host(host, tensor);
  return tensor;
}

Tensor BenchDevice::integers(DType dtype, int64_t count, int64_t below) {
  constexpr int64_t kFactor = 40'503;  // of a multiplicative hash
  const Tensor host = host_tensor(dtype, {count});
  for (int64_t i = 0; i < count; ++i) {
    const int64_t value = (i * kFactor + i / 7) % below;
    if (dtype == DType::i64) {
      host.data<int64_t>()[i] = value;
    } else {
      host.data<int32_t>()[i] = static_cast<int32_t>(value);
    }
  }
  return on_device(host);
}

void check_fits(double bytes, const std::string& what, const BenchDevice* device) {
  const double memory = device != nullptr ? device->memory_bytes() : physical_memory_bytes();
  VIADUCT_CHECK(ConfigError, bytes <= memory,
                "{}: the operands take {:.4g} GiB, this {} has {:.4g} GiB of memory", what,
                bytes / (1 << 30), device != nullptr && device->gpu() ? "GPU" : "machine",
                memory / (1 << 30));
}

}  // namespace viaduct::cli
