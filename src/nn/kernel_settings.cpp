#include "nn/kernel_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/convert.h"

namespace viaduct {
namespace {

constexpr std::string_view kNames[] = {"num_sm", "cga_size", "set_sm_margin", "atomic_gemm",
                                       "use_ce"};

std::string read_number(const Value& value, int most, std::optional<int>& target) {
  if (value.is_null()) {
    target.reset();
    return "";
  }
  int number = 0;
  if (!read_value(value, number) || number < 1 || number > most)
    return fmt::format("expected 1 to {}, or null", most);
  target = number;
  return "";
}

std::string read_switch(const Value& value, bool& target) {
  return read_value(value, target) ? "" : "expected bool";
}

}  // namespace

bool is_kernel_setting(std::string_view name) {
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

std::string read_kernel_setting(std::string_view name, const Value& value,
                                KernelSettings& settings) {
  if (name == "num_sm") return read_number(value, kMostSm, settings.num_sm);
  if (name == "cga_size") return read_number(value, kMostCga, settings.cga_size);
  if (name == "set_sm_margin") return read_switch(value, settings.set_sm_margin);
  if (name == "atomic_gemm") return read_switch(value, settings.atomic_gemm);
  if (value.is_null()) {
    settings.use_ce.reset();
    return "";
  }
  bool on = false;
  std::string wrong = read_switch(value, on);
  if (wrong.empty()) settings.use_ce = on;
  return wrong;
}

std::string wrong_kernel_settings(const KernelSettings& settings,
                                  const KernelConditions& conditions) {
  if (settings.num_sm && settings.cga_size && *settings.cga_size > *settings.num_sm)
    return fmt::format(
        ".cga_size: a cluster of {} blocks does not fit num_sm = {}; expected at "
        "most {}",
        *settings.cga_size, *settings.num_sm, std::min(*settings.num_sm, kMostCga));
  if (settings.set_sm_margin && !settings.num_sm)
    return ".set_sm_margin: true needs num_sm, the number of multiprocessors to leave free";
  if (!conditions.on_gpu) return "";
  if (settings.atomic_gemm)
    return ".atomic_gemm: cuBLASLt has no counters of finished chunks inside a product since CUDA "
           "13 (CUBLASLT_MATMUL_DESC_ATOMIC_SYNC_*); expected false";
  if (!settings.use_ce.value_or(false)) return "";
  if (!conditions.gathers)
    return ".use_ce: NCCL has copy engines for all-gathers of whole groups alone, which are the "
           "exchanges of qkv_dgrad and fc1_dgrad with method bulk; expected null or false";
  if (!conditions.symmetric_memory)
    return ".use_ce: copy engines read and write registered symmetric memory; expected "
           "ddp.nccl_ub = true without ddp.disable_symmetric_registration and sizes that depend on "
           "data (docs/cuda.md), or null";
  return "";
}

}  // namespace viaduct
