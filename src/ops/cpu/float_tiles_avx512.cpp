#include "ops/cpu/tile_vectors.h"

namespace viaduct::cpu::avx512 {
namespace {

/// Strips of A (or, kB, of B): 16 × 16 elements of memory are a tile, transposed where rows in
/// memory are not rows of the tile.
template <class T, bool kB>
void pack_of(const TileSource& source, float* to, int64_t strip) {
  constexpr int64_t kDepth = kStepDepth<float>, kTile = kStepElements<float>;
  const T* const data = static_cast<const T*>(source.data);
  const int64_t strips = tile_strips(source.width), steps = tile_steps<float>(source.depth);
  // Along memory's rows.
  const int64_t outer = source.contracted_first ? steps : strips;
  const int64_t inner = source.contracted_first ? strips : steps;
  const int64_t rows = source.contracted_first ? source.depth : source.width;
  const int64_t columns = source.contracted_first ? source.width : source.depth;
  for (int64_t y = 0; y < outer; ++y) {
    const int64_t height = rows - y * kDepth;
    for (int64_t x = 0; x < inner; ++x) {
      const int64_t rest = columns - x * kDepth;
      const T* from = data + y * kDepth * source.stride + x * kDepth;
      Words tile[16];
      if (rest >= kDepth && height >= kDepth) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) tile[i] = _mm512_castps_si512(load(from + i * source.stride));
      } else {
        const Mask mask = first(rest < kDepth ? rest : kDepth);
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) {
          tile[i] = i < height ? _mm512_castps_si512(load(from + i * source.stride, mask))
                               : _mm512_setzero_si512();
        }
      }
      if (kB != source.contracted_first) transpose(tile);
      store_tile(tile,
                 to + (source.contracted_first ? x * strip + y * kTile : y * strip + x * kTile));
    }
  }
}

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

struct Fused {
  using Element = float;
  static __m512 add(__m512 sums, Words spread, Words row) {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(spread), _mm512_castsi512_ps(row), sums);
  }
};

}  // namespace

const TileKernelsOf<float>& float_tile_kernels() {
  static constexpr TileKernelsOf<float> kKernels{pack<false>, pack<true>, vector_product<Fused>,
                                                 nothing, nothing};
  return kKernels;
}

}  // namespace viaduct::cpu::avx512
