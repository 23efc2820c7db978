#pragma once
// The instruction sets that kernels are compiled for.

#include <array>
#include <string_view>

#include "hardware/cpu_features.h"

namespace viaduct {

/// In the order of their capabilities. portable is the compiler's vectors of 8 floats for any
/// processor, including aarch64, with the bits of avx2. avx512_bf16 is AVX-512 with products of
/// BF16 (vdpbf16ps), amx that with tile registers; families without BF16 products run their AVX-512
/// kernels on both.
enum class CpuIsa { portable, avx2, avx512, avx512_bf16, amx };
inline constexpr CpuIsa kCpuIsas[] = {CpuIsa::portable, CpuIsa::avx2, CpuIsa::avx512,
                                      CpuIsa::avx512_bf16, CpuIsa::amx};

constexpr auto choice_names(CpuIsa) {
  return std::to_array<std::string_view>({"portable", "avx2", "avx512", "avx512_bf16", "amx"});
}
constexpr std::string_view cpu_isa_name(CpuIsa isa) {
  return choice_names(isa)[static_cast<size_t>(isa)];
}

/// Whether a CPU with these features executes it. Tile registers must still be granted
/// (hardware/cpu/amx_permission.h).
bool executes(const CpuFeatures& features, CpuIsa isa);

}  // namespace viaduct
