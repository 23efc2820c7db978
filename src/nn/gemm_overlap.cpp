#include "nn/gemm_overlap.h"

#include <algorithm>

namespace viaduct {

std::string_view overlap_gemm_name(OverlapGemm gemm) {
  static constexpr std::string_view kNames[kOverlapGemms] = {
      "qkv_fprop", "qkv_dgrad", "qkv_wgrad", "proj_fprop", "proj_dgrad",
      "fc1_fprop", "fc1_dgrad", "fc1_wgrad", "fc2_fprop",  "fc2_dgrad"};
  return kNames[static_cast<size_t>(gemm)];
}

std::vector<OwnConnection> own_connections(const GemmOverlapTable& table) {
  std::vector<OwnConnection> connections;
  for (int i = 0; i < kOverlapGemms; ++i) {
    const auto gemm = static_cast<OverlapGemm>(i);
    const GemmOverlap& row = table[gemm];
    if (row.connection == ConnectionSettings{}) continue;
    auto at = std::find_if(connections.begin(), connections.end(), [&](const OwnConnection& own) {
      return own.settings == row.connection;
    });
    if (at == connections.end()) at = connections.insert(at, {row.connection});
    const bool forward = overlap_gemm_name(gemm).ends_with("_fprop");
    if (row.method != OverlapMethod::ring_exchange) {
      at->collectives = true;
    } else if (forward) {
      at->activations = true;
    } else {
      at->gradients = true;
    }
  }
  return connections;
}

}  // namespace viaduct
