#include "nn/gemm_overlap.h"

namespace viaduct {

std::string_view overlap_method_name(OverlapMethod method) {
  static constexpr std::string_view kNames[] = {"none", "bulk", "ring_exchange", "pipeline"};
  return kNames[static_cast<size_t>(method)];
}

std::string_view overlap_gemm_name(OverlapGemm gemm) {
  static constexpr std::string_view kNames[kOverlapGemms] = {
      "qkv_fprop", "qkv_dgrad", "qkv_wgrad", "proj_fprop", "proj_dgrad",
      "fc1_fprop", "fc1_dgrad", "fc1_wgrad", "fc2_fprop",  "fc2_dgrad"};
  return kNames[static_cast<size_t>(gemm)];
}

}  // namespace viaduct
