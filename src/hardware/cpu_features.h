#pragma once
// The features of this machine's CPU that kernels use. A value: to simulate a smaller CPU (a forced
// instruction set, a test), the caller changes the copy that it passes on.

#include <string>

namespace viaduct {

struct CpuFeatures {
  /// "AMD EPYC 9R14", from the operating system; "unknown CPU" if it gives none.
  std::string model_name;
  /// AVX2 with FMA (x86-64-v3, the minimum for the binary).
  bool avx2 = false;
  /// AVX-512 F, BW, DQ and VL: what kernels of avx512 are compiled for.
  bool avx512 = false;
  /// Vector BF16 dot products (vdpbf16ps).
  bool avx512_bf16 = false;
  /// They have less than half the rate of FP32 FMA: Intel's cores with AVX512-FP16 (Golden Cove and
  /// later), which multiply BF16 in AMX tiles. AMD's run them at twice that rate.
  bool slow_bf16_vectors = false;
  /// AMX tiles with BF16 products, in a core that also has AVX-512 and AVX512-BF16: what
  /// kernels of amx are compiled for. The kernel must still grant the tile registers
  /// (hardware/cpu/amx_permission.h).
  bool amx_bf16 = false;
  // Of aarch64. Kernels of `portable` are compiled for the first, which each such processor has;
  // the others are only reported.
  bool neon = false;
  bool sve = false;
  bool arm_bf16 = false;
};

/// Queries the CPU and whether the operating system saves its registers: cpuid and XCR0 on x86, the
/// kernel's HWCAP bits on aarch64.
CpuFeatures detect_cpu_features();

/// "AMD EPYC 9R14: AVX2, AVX-512, AVX512-BF16".
std::string describe(const CpuFeatures& features);

}  // namespace viaduct
