#include "ops/cpu/cpu_ops.h"

namespace viaduct {

std::string_view cpu_isa_name(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::avx2:
      return "avx2";
    case CpuIsa::avx512:
      return "avx512";
    case CpuIsa::avx512_bf16:
      return "avx512_bf16";
    case CpuIsa::amx:
      return "amx";
  }
  return "unknown";
}

bool cpu_supports(CpuIsa isa) {
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  switch (isa) {
    case CpuIsa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case CpuIsa::avx512:
      return avx512;
    case CpuIsa::avx512_bf16:
      return avx512 && __builtin_cpu_supports("avx512bf16");
    case CpuIsa::amx:
      return false;  // no AMX kernel exists yet
  }
  return false;
}

CpuIsa best_cpu_isa() {
  return cpu_supports(CpuIsa::avx512) ? CpuIsa::avx512 : CpuIsa::avx2;
}

}  // namespace viaduct
