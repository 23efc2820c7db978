#pragma once
// Products of BF16 matrices cut into tiles, for all kernels built on them (linear layers,
// attention, head). The formats are those of AMX; AVX512-BF16 uses the same, so that packing, loops
// and tests are shared:
//
//   A tile   16 rows × 32 contracted, row-major: a[row][k]                      1 KB
//   B tile   16 pairs of contracted × 16 columns: b[k / 2][column][k mod 2]     1 KB
//   C        FP32, row-major with any row stride
//
// If a whole product is FP32, its operands use the same tiles with one element instead of a pair
// (16 rows × 16 contracted, 16 contracted × 16 columns).
//
// A *strip* is 16 rows of A (or 16 columns of B) over the whole contracted size: one tile per
// *step* of 32 (FP32: 16), one after the other. Sizes that are not multiples are padded with zeros,
// which adds exact zeros to sums. Strips are 64-byte aligned; the caller chooses their distance (no
// large power of two, or strips share cache sets).
//
// Arithmetic. A product of two BF16 numbers is exact in FP32, so only sums round, to nearest even.
// Denormal inputs and sums count as zero, whatever the thread's rounding mode. Order: AVX512-BF16
// adds one product after the other to the sum (of a pair, the odd one first); AMX sums a step's
// even and odd products separately and adds both to it. FP32 tiles add fused products in order. An
// element's bits depend on its row of A, its column of B and the contracted size alone, not on its
// position.
//
// A product sums its steps from zero, at most kSumSteps in one sum (sums of equal length, if there
// are several), and adds each sum to C. So a long contracted dim is a blocked sum: its error grows
// with the length of a block and the number of blocks, not with the whole length (Higham 1993, "The
// accuracy of floating point summation", section 4).

#include <cstdint>

#include "ops/cpu/kernel_sets.h"
#include "tensor/dtype.h"

namespace viaduct::cpu {

inline constexpr int64_t kTileRows = 16;     // of A and C
inline constexpr int64_t kTileColumns = 16;  // of B and C
/// Contracted elements of a step, and elements of an A or B tile: 64 bytes per row, 1 KB.
template <class Element>
inline constexpr int64_t kStepDepth = 64 / static_cast<int64_t>(sizeof(Element));
template <class Element>
inline constexpr int64_t kStepElements = kTileRows* kStepDepth<Element>;
/// Maximum steps of one sum: 768 terms of BF16, 384 of FP32. With 768 terms FP32 products are less
/// accurate than PyTorch's if logits share an offset (docs/parity.md).
inline constexpr int64_t kSumSteps = 24;
inline constexpr int64_t kTileDepth = kStepDepth<bfloat16>;        // 32
inline constexpr int64_t kTileElements = kStepElements<bfloat16>;  // 512

template <class Element = bfloat16>
inline constexpr int64_t tile_steps(int64_t depth) {
  return (depth + kStepDepth<Element> - 1) / kStepDepth<Element>;
}
/// Units of the last of these steps that are not padding, up to a multiple of four.
template <class Element>
inline constexpr int64_t last_tile_units(int64_t depth) {
  constexpr int64_t kFour = kStepDepth<Element> / 4;
  return depth == 0 ? kTileRows : ((depth - 1) % kStepDepth<Element> / kFour + 1) * 4;
}
/// Strips of `width` rows of A or columns of B.
inline constexpr int64_t tile_strips(int64_t width) {
  return (width + kTileRows - 1) / kTileRows;
}

/// A matrix in memory to be packed. For BF16 tiles: BF16, or FP32 that is rounded (to nearest even;
/// denormals to zero); for FP32 tiles: FP32, BF16 or FP16. `contracted_first`: rows in memory run
/// along the contracted dim, [depth][width], else [width][depth].
struct TileSource {
  const void* data = nullptr;
  DType dtype = DType::bf16;
  int64_t stride = 0;  // elements between rows in memory
  bool contracted_first = false;
  int64_t width = 0;  // rows of A or columns of B
  int64_t depth = 0;  // contracted
};

/// c [rows, columns] (= or +=) A · B over `steps` steps.
template <class Element>
struct TileProductOf {
  int64_t rows = 0, columns = 0;  // any; C has room for whole tiles, and the rest of the last ones
                                  // is overwritten
  int64_t steps = 0;
  const Element* a = nullptr;
  int64_t a_strip = 0;  // elements between strips of A
  const Element* b = nullptr;
  int64_t b_strip = 0;
  float* c = nullptr;
  int64_t c_stride = 0;  // elements between rows of C
  bool accumulate = false;
  bool more = false;  // the strips of B after these are next: they may be prefetched
  /// Units (rows of a B tile) of the last step, a multiple of four: those after them are zero, and
  /// need not be multiplied.
  int64_t last_units = kTileRows;
};

using TileProduct = TileProductOf<bfloat16>;

/// The functions of an instruction set.
template <class Element>
struct TileKernelsOf {
  /// Strips of A (or B) from `source`: tile_strips(width) strips, `strip` elements apart, of
  /// tile_steps(depth) tiles.
  void (*pack_a)(const TileSource& source, Element* to, int64_t strip);
  void (*pack_b)(const TileSource& source, Element* to, int64_t strip);
  /// Fast if strips of A stay in the L2 cache and two strips of B in the L1.
  void (*product)(const TileProductOf<Element>& product);
  /// Called around all products of a task on its thread (not around packing): configure and release
  /// AMX's registers. Not nested.
  void (*begin)();
  void (*end)();
};

using TileKernels = TileKernelsOf<bfloat16>;

/// Calls begin() and end().
template <class Element>
class TileScope {
 public:
  explicit TileScope(const TileKernelsOf<Element>& kernels) : kernels_(kernels) {
    kernels_.begin();
  }
  ~TileScope() { kernels_.end(); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  const TileKernelsOf<Element>& kernels_;
};

VIADUCT_KERNELS_FUNCTION(TileKernelsOf<float>, float_tile_kernels)
namespace avx512_bf16 {
const TileKernels& tile_kernels();
}
namespace amx {
/// Requires cpu_supports(CpuIsa::amx).
const TileKernels& tile_kernels();
}  // namespace amx

}  // namespace viaduct::cpu
