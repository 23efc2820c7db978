#include "hardware/cpu_isa.h"

namespace viaduct {

bool executes(const CpuFeatures& features, CpuIsa isa) {
  switch (isa) {
    case CpuIsa::portable:
      return true;
    case CpuIsa::avx2:
      return features.avx2;
    case CpuIsa::avx512:
      return features.avx512;
    case CpuIsa::avx512_bf16:
      return features.avx512_bf16;
    case CpuIsa::amx:
      return features.amx_bf16;
  }
  return false;
}

}  // namespace viaduct
