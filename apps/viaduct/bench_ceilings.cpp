// The rates that ops are compared with, measured in the same run.

#include <fmt/core.h>

#include "bench_device.h"
#include "hardware/cpu/peak.h"
#include "ops/elementwise.h"
#include "ops/gemm.h"

namespace viaduct::cli {
namespace {

// Sizes grow until one call takes this long: by then launches do not count, on any machine.
constexpr double kLongEnough = 1e-3;
constexpr int kRounds = 5;
constexpr double kRoundSeconds = 0.02;

}  // namespace

MatmulPeak product_ceiling(BenchDevice& device, DType dtype) {
  if (!device.gpu()) return measure_matmul_peak(device.device().pool(), dtype, device.isa());
  constexpr int64_t kFirst = 256, kLast = 8192;
  OpContext context = device.context();
  const char* format = dtype == DType::bf16 ? "BF16" : dtype == DType::f16 ? "FP16" : "FP32";
  MatmulPeak best;
  best.measured = true;
  for (int64_t n = kFirst; n <= kLast; n *= 2) {
    const Tensor a = device.random(dtype, {n, n}, 1), b = device.random(dtype, {n, n}, 2);
    const Tensor c = context.allocate(dtype, {n, n}, MemoryTag::other);
    const double seconds = device.seconds_of_call(
        [&](int64_t) {
          gemm(context, {GemmForm::forward, a, b, c});
        },
        kRoundSeconds, kRounds);
    const auto side = static_cast<double>(n);
    const double tflops = 2 * side * side * side / seconds * 1e-12;
    if (tflops > best.tflops) {
      best.tflops = tflops;
      best.name = fmt::format("{} product {} x {} x {}", format, n, n, n);
    }
    if (seconds >= kLongEnough) break;
  }
  return best;
}

CopyCeiling copy_ceiling(BenchDevice& device) {
  constexpr int64_t kFirst = int64_t{1} << 20, kLast = int64_t{1} << 30;
  OpContext context = device.context();
  CopyCeiling found;
  for (int64_t bytes = kFirst; bytes <= kLast; bytes *= 4) {
    const Tensor from = device.random(DType::f32, {bytes / 4}, 1);
    const Tensor to = context.allocate(DType::f32, {bytes / 4}, MemoryTag::other);
    const double seconds = device.seconds_of_call(
        [&](int64_t) {
          copy(context, {from, to});
        },
        kRoundSeconds, kRounds);
    // The largest, not the fastest: small copies stay in caches.
    found = {2 * bytes, 2 * static_cast<double>(bytes) / seconds * 1e-9};
    if (seconds >= kLongEnough && bytes > 2 * device.cache_bytes()) break;
  }
  return found;
}

}  // namespace viaduct::cli
