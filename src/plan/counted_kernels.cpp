#include "plan/counted_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "hardware/kernel_counts.h"

namespace viaduct {
namespace {

// Operations of a matrix instruction of a warp: of 16 · 8 · 16 multiply-adds, or a quarter of the
// 64 · 256 · 16 (FP8: 64 · 128 · 32) of a warpgroup.
constexpr double kOfWarp = 2.0 * 16 * 8 * 16, kOfWarpgroup = 2.0 * 64 * 256 * 16 / 4;

/// The widths of the kernels of attention that take heads of the size, as they are named.
std::string widths_of(int64_t head_size) {
  if (head_size <= 64) return "64, 64";
  if (head_size <= 128) return "128, 128";
  return head_size <= 192 ? "192, 128" : "256, 256";
}

struct GroupedKernel {
  std::string_view kernel, begins, ends;
  double flops;
  bool waits = false;
};
// The kernels by the names of their choices (ops/cuda/grouped_gemm_choose.cpp). Those that add the
// sums of FP8 products to totals do it between products.
constexpr GroupedKernel kGrouped[] = {
    {"grouped_tiles", "grouped_gemm_kernel<Bf16,", ">", kOfWarp},
    {"grouped_warpgroups", "grouped_warpgroups_kernel<Bf16,", ">", kOfWarpgroup},
    {"grouped_fp8_warpgroups", "grouped_code_warpgroups_kernel<", ", false>", kOfWarpgroup, true},
    {"grouped_fp8_blocks_warpgroups", "grouped_code_warpgroups_kernel<", ", true>", kOfWarpgroup,
     true},
    {"grouped_fp8", "grouped_codes_kernel<", "(Scaled)0>", kOfWarp},
    {"grouped_fp8_blocks", "grouped_codes_kernel<", "(Scaled)1>", kOfWarp},
    {"grouped_mxfp8", "grouped_codes_kernel<", "(Scaled)1>", kOfWarp},
    {"grouped_nvfp4", "grouped_codes_kernel<", "(Scaled)2>", kOfWarp}};

}  // namespace

CountedKernels::CountedKernels(const Gpu& gpu, int64_t head_size) {
  if (gpu.is_cpu || !gpu.architecture) return;
  const CudaTarget target = *gpu.architecture;
  const double begun = instructions_per_second(gpu);
  const auto add = [&](std::string_view op, std::string_view kernel, double flops, double count,
                       bool waits = false) {
    if (count > 0) rates_.push_back({op, kernel, begun * flops / count, waits});
  };
  const std::string widths = widths_of(head_size);
  constexpr std::string_view kFlash[][2] = {{"flash_mma", "Bf16"}, {"flash_fp8", "Code"}};
  for (const auto& [kernel, type] : kFlash) {
    const auto count = [&](std::string_view name) {
      return instructions_per_product(target, fmt::format("{}<{}, {}", name, type, widths), ">");
    };
    add("attention_forward", kernel, kOfWarp, count("forward_kernel"));
    // Of the seven products four are by keys, three by queries.
    add("attention_backward", kernel, kOfWarp,
        (4 * count("backward_keys_kernel") + 3 * count("backward_queries_kernel")) / 7);
  }
  for (const GroupedKernel& each : kGrouped)
    add("grouped_gemm", each.kernel, each.flops,
        instructions_per_product(target, each.begins, each.ends), each.waits);
}

double CountedKernels::seconds(const OpEntryRecord& op, double flops,
                               double product_seconds) const {
  const auto found = std::ranges::find_if(
      rates_, [&](const Rate& rate) { return rate.kernel == op.kernel && rate.op == op.op; });
  if (found == rates_.end()) return product_seconds;
  const double issued = flops / found->flops;
  return found->waits ? product_seconds + issued : std::max(product_seconds, issued);
}

}  // namespace viaduct
