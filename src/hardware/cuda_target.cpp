#include "hardware/cuda_target.h"

namespace viaduct {

std::string_view cuda_target_name(CudaTarget target) {
  switch (target) {
    case CudaTarget::sm_80:
      return "sm_80";
    case CudaTarget::sm_90a:
      return "sm_90a";
    case CudaTarget::sm_100a:
      return "sm_100a";
  }
  return "";
}

std::optional<CudaTarget> cuda_target_of(std::string_view name) {
  for (const CudaTarget target : kCudaTargets)
    if (cuda_target_name(target) == name) return target;
  return std::nullopt;
}

}  // namespace viaduct
