#pragma once
// What kernels on a GPU are told where a product runs beside an exchange of tensor ranks: how many
// multiprocessors each of the two has. NCCL takes these numbers for a connection
// (comm/connection_settings.h), cuBLASLt for a product (GemmArgs::spare_multiprocessors). On the
// cpu they are checked, and mean nothing.

#include <optional>
#include <string>
#include <string_view>

#include "comm/connection_settings.h"
#include "config/value.h"

namespace viaduct {

struct KernelSettings {
  std::optional<int> num_sm;    // of the exchange; null: NCCL's choice
  std::optional<int> cga_size;  // blocks of a cluster of its kernels; null: NCCL's choice
  bool set_sm_margin = false;   // the product leaves num_sm multiprocessors free
  bool atomic_gemm = false;     // nothing here has it
  std::optional<bool> use_ce;   // copy engines move the data; null: NCCL's choice

  ConnectionSettings connection() const {
    return {num_sm.value_or(0), cga_size.value_or(0), use_ce.value_or(false)};
  }
  int spare_multiprocessors() const { return set_sm_margin ? num_sm.value_or(0) : 0; }
};

/// NCCL's limit: the blocks of its kernels on a connection.
inline constexpr int kMostSm = 64;
inline constexpr int kMostCga = 4;

/// "num_sm", …: the names of the members, in tp_comm_overlap_cfg and in section `comm_overlap`.
bool is_kernel_setting(std::string_view name);
/// Reads the setting of this name. Returns what is wrong with the value, "expected …"; "" if
/// nothing is.
std::string read_kernel_setting(std::string_view name, const Value& value,
                                KernelSettings& settings);

/// What a product and its exchange are.
struct KernelConditions {
  bool on_gpu = false;            // NCCL and cuBLASLt carry them out
  bool gathers = false;           // the exchange is one all-gather
  bool symmetric_memory = false;  // ddp.nccl_ub registers windows
};
/// What is wrong with the settings together: ".name: …"; "" if nothing is.
std::string wrong_kernel_settings(const KernelSettings& settings,
                                  const KernelConditions& conditions);

}  // namespace viaduct
