#pragma once
// The register-only loops of `measure_matmul_peak`, one per instruction set. Random operands: zeros
// and constants draw less power and run faster than real data.

#include <cstdint>

namespace viaduct::cpu {

/// A loop of FP32 fused multiply-adds over `accumulators` independent vectors of `lanes`. An
/// iteration does, for every accumulator v and j in 0…3: v = v · x[j] + y[j mod 2], where x and y
/// are vectors of `lanes` with |x| < 1 (so v stays bounded).
struct FmaLoop {
  static constexpr int kMultipliers = 4, kAddends = 2;
  int accumulators;
  int lanes;
  /// `x`: [4][lanes], `y`: [2][lanes], `v`: [accumulators][lanes], read at the start and written at
  /// the end; unaligned.
  void (*run)(const float* x, const float* y, float* v, int64_t iterations);

  double flops_per_iteration() const { return 2.0 * kMultipliers * accumulators * lanes; }
};

/// What the compiler makes of plain loops.
FmaLoop fma_loop_portable();
FmaLoop fma_loop_avx2();
/// Requires CpuFeatures::avx512.
FmaLoop fma_loop_avx512();

/// A loop of BF16 dot products of pairs (vdpbf16ps) over `accumulators` independent vectors of
/// `lanes` sums. An iteration does, for j in 0…3 and every accumulator v_i: v_i += pairs of x[j] ·
/// y[(i + j) mod 2].
struct DotLoop {
  static constexpr int kMultipliers = 4, kOthers = 2;
  int accumulators;
  int lanes;
  /// `x`: [4][lanes][2], `y`: [2][lanes][2], BF16 bits; `v`: [accumulators][lanes], read at the
  /// start and written at the end; unaligned.
  void (*run)(const uint16_t* x, const uint16_t* y, float* v, int64_t iterations);

  double flops_per_iteration() const { return 4.0 * kMultipliers * accumulators * lanes; }
};

/// Requires CpuFeatures::avx512_bf16.
DotLoop dot_loop_avx512_bf16();

/// A loop of BF16 tile products: 2 × 2 tiles of C (16 × 16 FP32 each) += A (16 × 32) · B (32 × 16),
/// four products per iteration.
struct TileLoop {
  static constexpr int kTileElements = 512;  // BF16, 1 KB
  static constexpr double kFlopsPerIteration = 4 * 2.0 * 16 * 16 * 32;
  /// `a`, `b`: two tiles each, BF16 bits, b in row pairs: b[k / 2][n][k mod 2]. `c`: four tiles
  /// [2][2][16][16], overwritten.
  void (*run)(const uint16_t* a, const uint16_t* b, float* c, int64_t iterations);
};

/// Requires CpuFeatures::amx_bf16 and a successful request_amx_permission().
TileLoop tile_loop_amx();

}  // namespace viaduct::cpu
