#pragma once
// Products of BF16 matrices cut into tiles, for all kernels whose inner work is one (linear layers,
// attention, head). The formats are those of AMX; AVX512-BF16 uses the same, so that packing, loops
// and tests are shared:
//
//   A tile   16 rows × 32 contracted, row-major: a[row][k]                      1 KB
//   B tile   16 pairs of contracted × 16 columns: b[k / 2][column][k mod 2]     1 KB
//   C        FP32, row-major with any row stride
//
// A *strip* is 16 rows of A (or 16 columns of B) over the whole contracted size: one tile per
// *step* of 32, one after the other. Sizes that are no multiples are padded with zeros, which adds
// exact zeros to sums. Strips are 64-byte aligned; their distance is the caller's (no large power
// of two, or strips fall into the same sets of a cache).
//
// Arithmetic. A product of two BF16 numbers is exact in FP32, so only sums round, to nearest even.
// Denormal inputs and sums count as zero, whatever the thread's rounding mode says. Order:
// AVX512-BF16 adds one product after the other to C (of a pair, the odd one first); AMX sums a
// step's even and odd products apart and adds both to C. Either way an element's bits depend on its
// row of A, its column of B and the contracted size alone, not on its place, and splitting the
// contracted dim at multiples of 32 into a first product and accumulating ones changes no bit.

#include <cstdint>

#include "tensor/dtype.h"

namespace viaduct::cpu {

inline constexpr int64_t kTileRows = 16;       // of A and C
inline constexpr int64_t kTileColumns = 16;    // of B and C
inline constexpr int64_t kTileDepth = 32;      // contracted elements of a step
inline constexpr int64_t kTileElements = 512;  // of an A or B tile

inline constexpr int64_t tile_steps(int64_t depth) {
  return (depth + kTileDepth - 1) / kTileDepth;
}
/// Strips of `width` rows of A or columns of B.
inline constexpr int64_t tile_strips(int64_t width) {
  return (width + kTileRows - 1) / kTileRows;
}

/// A matrix in memory that becomes tiles: BF16, or FP32 that is rounded (to nearest even; denormals
/// to zero). `contracted_first`: rows in memory run along the contracted dim, [depth][width], else
/// [width][depth].
struct TileSource {
  const void* data = nullptr;
  DType dtype = DType::bf16;  // or f32
  int64_t stride = 0;         // elements between rows in memory
  bool contracted_first = false;
  int64_t width = 0;  // rows of A or columns of B
  int64_t depth = 0;  // contracted
};

/// c [rows, columns] (= or +=) A · B over `steps` steps.
struct TileProduct {
  int64_t rows = 0, columns = 0;  // any; C has room for whole tiles, and what lies in the rest of
                                  // the last ones is overwritten
  int64_t steps = 0;
  const bfloat16* a = nullptr;
  int64_t a_strip = 0;  // elements between strips of A
  const bfloat16* b = nullptr;
  int64_t b_strip = 0;
  float* c = nullptr;
  int64_t c_stride = 0;  // elements between rows of C
  bool accumulate = false;
};

/// An instruction set's half of the contract.
struct TileKernels {
  /// Strips of A (or B) from `source`: tile_strips(width) strips, `strip` elements apart, of
  /// tile_steps(depth) tiles.
  void (*pack_a)(const TileSource& source, bfloat16* to, int64_t strip);
  void (*pack_b)(const TileSource& source, bfloat16* to, int64_t strip);
  /// Fast where strips of A stay in the second-level cache and two strips of B in the first.
  void (*product)(const TileProduct& product);
  /// Around all products of a task on its thread (not around packing): AMX's registers are
  /// configured and given back here. Not nested.
  void (*begin)();
  void (*end)();
};

/// begin() … end().
class TileScope {
 public:
  explicit TileScope(const TileKernels& kernels) : kernels_(kernels) { kernels_.begin(); }
  ~TileScope() { kernels_.end(); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  const TileKernels& kernels_;
};

namespace avx512_bf16 {
const TileKernels& tile_kernels();
}
namespace amx {
/// Only where cpu_supports(CpuIsa::amx).
const TileKernels& tile_kernels();
}  // namespace amx

}  // namespace viaduct::cpu
