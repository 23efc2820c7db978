#pragma once
// The table of GEMMs whose tensor-parallel communication can be hidden, and the method of each.
// Plain types for the layers; the settings are in nn/tensor_parallel_config.h.

#include <array>
#include <string_view>
#include <vector>

#include "comm/connection_settings.h"
#include "config/choice.h"

namespace viaduct {

/// bulk: one collective beside an independent GEMM. ring_exchange: chunks travel around a ring
/// between chunks of the GEMM. pipeline: the GEMM is cut over output features, and the
/// reduce-scatter of a chunk runs during the next.
enum class OverlapMethod { none, bulk, ring_exchange, pipeline };
constexpr auto choice_names(OverlapMethod) {
  return std::to_array<std::string_view>({"none", "bulk", "ring_exchange", "pipeline"});
}

enum class OverlapGemm {
  qkv_fprop,   // gathers its input
  qkv_dgrad,   // beside it the saved input for qkv_wgrad is gathered (bulk)
  qkv_wgrad,   // beside it the input gradient is reduce-scattered (bulk)
  proj_fprop,  // reduce-scatters its output
  proj_dgrad,  // gathers the output gradient
  fc1_fprop,
  fc1_dgrad,
  fc1_wgrad,
  fc2_fprop,
  fc2_dgrad,
};
inline constexpr int kOverlapGemms = 10;
/// "qkv_fprop", …: the names in tp_comm_overlap_cfg.
std::string_view overlap_gemm_name(OverlapGemm gemm);

struct GemmOverlap {
  OverlapMethod method = OverlapMethod::none;
  int num_splits = 1;      // chunks: of pipeline over output features, of ring_exchange over ranks
  bool aggregate = false;  // ring steps move chunks in pairs
  bool fp8_buf = false;    // quantized layers: parts of sums travel as FP8 (nn/fp8_exchange.h)
  ConnectionSettings connection = {};  // that carries the exchange
  int spare_multiprocessors = 0;       // that the product leaves to it
  bool operator==(const GemmOverlap&) const = default;
};

/// One row for each GEMM; default: nothing overlaps.
struct GemmOverlapTable {
  std::array<GemmOverlap, kOverlapGemms> rows{};

  GemmOverlap& operator[](OverlapGemm gemm) { return rows[static_cast<size_t>(gemm)]; }
  const GemmOverlap& operator[](OverlapGemm gemm) const { return rows[static_cast<size_t>(gemm)]; }
  bool operator==(const GemmOverlapTable&) const = default;
};

/// The connections that the rows name beside the usual ones of group tp: one for each of their
/// different settings.
std::vector<OwnConnection> own_connections(const GemmOverlapTable& table);

}  // namespace viaduct
