// instruction sets: portable avx2 avx512
// Kernels of NVFP4 operands, compiled per instruction set. Conversions of codes are plain loops
// without branches, which the compiler turns into vectors.

#include "ops/cpu/gemm/nvfp4_kernels.h"

#include "ops/cpu/gemm/nvfp4_encode.h"
#include "ops/cpu/gemm/nvfp4_widen.h"
#include "ops/cpu/simd/simd_float8.h"
#include "ops/cpu/simd/simd_philox.h"
#include "ops/cpu/simd/simd_rows.h"
#include "tensor/hadamard.h"
#include "tensor/nvfp4.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// A column of vectors.
using Rows = Vec[kRotated];

/// In this order of bits, NaN is above infinity and infinity above all numbers.
inline int32_t magnitude_bits(float x) {
  return static_cast<int32_t>(bits_of_float(x) & 0x7fffffffu);
}

/// The first `rows` of 16 that are `next` elements apart; the others are zeros.
template <class T, class... M>
inline void load_rows(const T* from, int64_t next, int64_t rows, Rows& x, M... mask) {
  if (rows == kRotated) {
#pragma GCC unroll 16
    for (int r = 0; r < kRotated; ++r) x[r] = load(from + r * next, mask...);
    return;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRotated; ++r) x[r] = r < rows ? load(from + r * next, mask...) : zero();
}

/// The rounds of the rotation with rows less than `end` apart.
inline void rotate_rounds(Rows& x, int end) {
#pragma GCC unroll 16
  for (int i = 0; i < kRotated; ++i) x[i] = mul(x[i], set1(kRotationSigns[i] * 0.25f));
#pragma GCC unroll 4
  for (int apart = 1; apart < end; apart *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < kRotated; ++i) {
      if ((i & apart) != 0) continue;
      const Vec sum = add(x[i], x[i + apart]), difference = sub(x[i], x[i + apart]);
      x[i] = sum;
      x[i + apart] = difference;
    }
  }
}

template <bool kRotates, class T>
void load_columns(const T* from, int64_t next, int64_t rows, int64_t count, float* to) {
  for_row(count, [=](int64_t c, auto... mask) {
    Rows x;
    load_rows(from + c, next, rows, x, mask...);
    if (kRotates) rotate_rounds(x, kRotated);
#pragma GCC unroll 16
    for (int r = 0; r < kRotated; ++r) store(to + r * kNvfp4Columns + c, x[r], mask...);
  });
}

void load_block(const void* from, int64_t stride, DType dtype, int64_t rows, int64_t count,
                bool rotated, float* to) {
  with_floats(dtype, from, [&](const auto* first) {
    const int64_t next = stride / static_cast<int64_t>(sizeof(*first));
    rotated ? load_columns<true>(first, next, rows, count, to)
            : load_columns<false>(first, next, rows, count, to);
  });
}

/// Of the last round of the rotation only magnitudes are needed, and the larger one of a sum and a
/// difference is the sum of the magnitudes.
int32_t rotated_magnitude(const void* from, int64_t stride, DType dtype, int64_t rows,
                          int64_t count) {
  alignas(64) int32_t most[kLanes] = {};
  with_floats(dtype, from, [&](const auto* first) {
    const int64_t next = stride / static_cast<int64_t>(sizeof(*first));
    for_row(count, [&](int64_t c, auto... mask) {
      Rows x;
      load_rows(first + c, next, rows, x, mask...);
      rotate_rounds(x, kRotated / 2);
      alignas(64) float sums[kRotated / 2][kLanes];
#pragma GCC unroll 8
      for (int i = 0; i < kRotated / 2; ++i)
        store(sums[i], add(absolute(x[i]), absolute(x[i + kRotated / 2])));
      for (const auto& sum : sums) {
        for (int i = 0; i < kLanes; ++i) {
          const int32_t bits = magnitude_bits(sum[i]);
          most[i] = bits > most[i] ? bits : most[i];
        }
      }
    });
  });
  int32_t largest = 0;
  for (const int32_t each : most) largest = each > largest ? each : largest;
  return largest;
}

void column_magnitudes(const float* block, int64_t rows, int64_t count, int32_t* most) {
  for (int64_t c = 0; c < count; ++c) most[c] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const float* const row = block + r * kNvfp4Columns;
    for (int64_t c = 0; c < count; ++c) {
      const int32_t bits = magnitude_bits(row[c]);
      most[c] = bits > most[c] ? bits : most[c];
    }
  }
}

void line_magnitudes(const float* block, int64_t rows, int64_t count, int32_t* most) {
  for (int64_t r = 0; r < rows; ++r, most += kNvfp4RowGroups) {
    const float* const row = block + r * kNvfp4Columns;
    for (int64_t c = 0, g = 0; c < count; c += kNvfp4Group, ++g) {
#if !defined(VIADUCT_PORTABLE) && defined(__AVX512F__)
      const Vec x = count - c < kLanes ? load(row + c, first(count - c)) : load(row + c);
      most[g] = _mm512_reduce_max_epi32(
          _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff)));
#else
      const int64_t here = count - c < kNvfp4Group ? count - c : kNvfp4Group;
      most[g] = 0;
      for (int64_t i = c; i < c + here; ++i) {
        const int32_t bits = magnitude_bits(row[i]);
        most[g] = bits > most[g] ? bits : most[g];
      }
#endif
    }
  }
}

void make_scales(const int32_t* most, int64_t count, float matrix_scale, uint8_t* codes,
                 float* divisors) {
  for (int64_t g = 0; g < count; ++g) {
    const float amax = float_of_bits(static_cast<uint32_t>(most[g]));
    codes[g] = encode_e4m3(amax / 6.0f / matrix_scale);
  }
  for (int64_t g = 0; g < count; ++g) {
    const float divisor = decode_e4m3(codes[g]) * matrix_scale;
    divisors[g] = float_of_bits(choose_bits(codes[g] == 0, 0x7f800000u, bits_of_float(divisor)));
  }
}

void draw(uint64_t key, uint64_t token, uint64_t first, int64_t count, uint16_t* to) {
  for (int64_t c = 0; c < count; c += 8 * kLanes) {
    Words w[4];
    philox_words(key, token, (first + static_cast<uint64_t>(c)) / 8, w);
    __builtin_memcpy(to + c, w, sizeof(w));
  }
}

void read_scales(const uint8_t* codes, int64_t count, float* to) {
  for (int64_t g = 0; g < count; ++g) to[g] = decode_e4m3(codes[g]);
}

}  // namespace

const Nvfp4Kernels& nvfp4_kernels() {
  static constexpr Nvfp4Kernels kKernels{
      load_block, rotated_magnitude, column_magnitudes, line_magnitudes, make_scales, encode_e2m1,
      draw,       read_scales,       widen_e2m1};
  return kKernels;
}

}  // namespace viaduct::cpu::VIADUCT_ISA
