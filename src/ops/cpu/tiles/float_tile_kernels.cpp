// instruction sets: portable avx2 avx512
// FP32 tiles (tiles.h): packing of FP32, BF16 and FP16 matrices, and their products by fused
// multiply-adds. Compiled per instruction set.

#include "ops/cpu/tiles/tile_arithmetic.h"
#include "ops/cpu/tiles/tile_vectors.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// Copies kLanes × kLanes elements of memory, `height` × `width` of them valid (zeros beyond), to
/// the tile's rows from `to` on; kTransposed: memory's rows become the tile's columns.
template <class T, bool kTransposed>
inline void pack_square(const T* from, int64_t stride, int64_t height, int64_t width, float* to) {
  Units square[kLanes];
  if (height >= kLanes && width >= kLanes) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) square[i] = as_units(load(from + i * stride));
  } else {
    const Mask mask = first(width <= 0 ? 0 : width < kLanes ? width : kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i)
      square[i] = as_units(i < height ? load(from + i * stride, mask) : zero());
  }
  if constexpr (kTransposed) transpose(square);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) store(to + i * kTileColumns, as_floats(square[i]));
}

/// Strips of A or B: 16 × 16 elements of memory are a tile, transposed if rows in memory are not
/// rows of the tile.
template <class T, bool kTransposed>
void pack_squares(const TileSource& source, float* to, int64_t strip) {
  constexpr int64_t kDepth = kStepDepth<float>, kTile = kStepElements<float>;
  const int64_t strips = tile_strips(source.width), steps = tile_steps<float>(source.depth);
  // Along memory's rows.
  const int64_t outer = source.contracted_first ? steps : strips;
  const int64_t inner = source.contracted_first ? strips : steps;
  const int64_t rows = source.contracted_first ? source.depth : source.width;
  const int64_t columns = source.contracted_first ? source.width : source.depth;
  for (int64_t y = 0; y < outer; ++y) {
    for (int64_t x = 0; x < inner; ++x) {
      float* const tile =
          to + (source.contracted_first ? x * strip + y * kTile : y * strip + x * kTile);
#pragma GCC unroll 2
      for (int64_t i = 0; i < kDepth; i += kLanes) {
#pragma GCC unroll 2
        for (int64_t j = 0; j < kDepth; j += kLanes) {
          const int64_t row = y * kDepth + i, column = x * kDepth + j;
          pack_square<T, kTransposed>(
              static_cast<const T*>(source.data) + row * source.stride + column, source.stride,
              rows - row, columns - column,
              tile + (kTransposed ? j * kTileColumns + i : i * kTileColumns + j));
        }
      }
    }
  }
}

template <class T, bool kB>
void pack_of(const TileSource& source, float* to, int64_t strip) {
  kB != source.contracted_first ? pack_squares<T, true>(source, to, strip)
                                : pack_squares<T, false>(source, to, strip);
}

/// kB: strips of B, else of A.
template <bool kB>
void pack(const TileSource& source, float* to, int64_t strip) {
  if (source.dtype == DType::f32) {
    pack_of<float, kB>(source, to, strip);
  } else if (source.dtype == DType::bf16) {
    pack_of<bfloat16, kB>(source, to, strip);
  } else {
    pack_of<float16, kB>(source, to, strip);
  }
}

}  // namespace

const TileKernelsOf<float>& float_tile_kernels() {
  static constexpr TileKernelsOf<float> kKernels{pack<false>, pack<true>, vector_product<Fused>,
                                                 nothing, nothing};
  return kKernels;
}

}  // namespace viaduct::cpu::VIADUCT_ISA
