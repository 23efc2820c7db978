#include "hardware/kernel_counts.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "hardware/catalog_data.h"

namespace viaduct {
namespace {

std::string_view take_until(char end, std::string_view& rest) {
  const size_t at = std::min(rest.find(end), rest.size());
  const std::string_view taken = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return taken;
}

}  // namespace

double instructions_per_product(CudaTarget target, std::string_view begins, std::string_view ends) {
  // As the budgets name the target: by the architecture of its code.
  const std::string code = "sm_" + std::string(cuda_target_code(target));
  double most = 0;
  for (std::string_view rest = kKernelCountsTsv; !rest.empty();) {
    std::string_view line = take_until('\n', rest);
    const std::string_view name = take_until('\t', line), of = take_until('\t', line);
    if (of != code || !name.starts_with(begins) || !name.ends_with(ends)) continue;
    for (int skipped = 0; skipped < 3; ++skipped) take_until('\t', line);  // registers … blocks
    const std::string_view text = take_until('\t', line);
    double count = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), count);
    VIADUCT_CHECK(ConfigError, read.ec == std::errc() && count > 0,
                  "counts of kernel {}: expected instructions per product, found {}", name, text);
    most = std::max(most, count);
  }
  return most;
}

double instructions_per_second(const Gpu& gpu) {
  constexpr double kSchedulers = 4, kOperations = 2;  // of a fused multiply-add
  // The FP32 peak gives the clock times the multiprocessors. These have 128 lanes, those of 8.0
  // half of that, beside matrix units that are 16 times as fast.
  const double fp32 = gpu.dense_flops.at("f32");
  const bool few = gpu.architecture == CudaTarget::sm_80 && gpu.dense_flops.at("bf16") >= 16 * fp32;
  const double lanes = few ? 64 : 128;
  return fp32 / (kOperations * lanes) * kSchedulers;
}

}  // namespace viaduct
