#pragma once
// A tile of 128 × 128 elements of a block, 8 × 8 of each thread in registers: how it is read, the
// scale of a group, and the codes of a row. Rows and columns behind the last are the last again,
// which changes no magnitude.

#include "ops/cuda/kernels/float8.cuh"
#include "ops/cuda/kernels/number_pairs.cuh"
#include "ops/cuda/kernels/quantize.h"

namespace viaduct::cuda {

inline constexpr int kThreads = 256, kSide = 128, kOwn = 8, kAcross = kSide / kOwn;

/// Words of 8 elements.
template <class T>
inline constexpr int kWords = kOwn / kInWord<T>;

/// Bits of the scale of a group, a power of two or NaN, and of what its elements are multiplied by,
/// 1 / scale.
struct PowerScale {
  uint32_t scale, factor;
};

/// The same as `scale_of` of a group, without a quotient. 448 and 57344 are 1.75 · 2^8 and 1.75 ·
/// 2^15, and a quotient that is larger than a power of two is never rounded to it, so that the
/// mantissa of the largest magnitude decides; but the one that is next above 2^-127 is rounded to
/// it, which is also the scale of all below, and 1 that of zeros.
template <bool kE5m2>
__device__ PowerScale scale_of_most(uint32_t most) {
  constexpr uint32_t kShift = kE5m2 ? 15 : 8, kInfinity = 0x7f800000u;
  uint32_t scale = ((most + 0x1fffffu) & kInfinity) - (kShift << 23);
  if (most <= (kShift << 23 | 0x600001u)) scale = 0x00400000u;
  if (most == 0) scale = 127u << 23;
  uint32_t factor = (254u << 23) - (scale & kInfinity);
  if (most >= kInfinity) scale = factor = 0x7fc00000u;
  return {scale, factor};
}

/// Stores the scale of group (row, column) if the thread is to, and returns the bits of 1 / scale.
template <bool kE5m2>
__device__ uint32_t finish_group(const QuantizedRows& args, uint32_t most, bool store, int row,
                                 int column) {
  const PowerScale found = scale_of_most<kE5m2>(most);
  if (store) {
    const uint64_t at =
        uint64_t{static_cast<uint32_t>(row)} * static_cast<uint32_t>(args.scale_row_stride) +
        uint64_t{static_cast<uint32_t>(column)} * static_cast<uint32_t>(args.scale_column_stride);
    if (args.scale_powers != nullptr) {
      args.scale_powers[at] = static_cast<uint8_t>(found.scale >> 23);  // 2^-127 has code 0
    } else {
      args.scales[at] = __uint_as_float(found.scale);
    }
  }
  return found.factor;
}

/// The magnitudes of a word as bits of FP32.
template <class T>
__device__ void magnitudes_in(uint32_t word, uint32_t (&bits)[kInWord<T>]) {
  float values[kInWord<T>];
  widen_word<T>(word & kMagnitudes<T>, values);
#pragma unroll
  for (int i = 0; i < kInWord<T>; ++i) bits[i] = __float_as_uint(values[i]);
}

/// 8 × 8 elements of a thread.
template <class T>
struct OwnTile {
  uint32_t words[kOwn][kWords<T>];
};

/// Where the thread's elements begin, and how many rows of them follow the first.
struct OwnPlace {
  int across = static_cast<int>(threadIdx.x % kAcross);
  int down = static_cast<int>(threadIdx.x / kAcross);
  int column = static_cast<int>(blockIdx.x) * kSide + across * kOwn;
  int row = static_cast<int>(blockIdx.y) * kSide + down * kOwn;
  bool inside;  // in columns
  int last;     // row of the thread; negative: all are behind the matrix
  __device__ explicit OwnPlace(const QuantizedRows& args)
      : inside(column < static_cast<int>(args.columns)),
        last(min(static_cast<int>(args.rows.rows) - 1 - row, kOwn - 1)) {}
};

template <class T>
__device__ OwnTile<T> read_tile(const QuantizedRows& args, const OwnPlace& own) {
  OwnTile<T> tile;
  const int column = own.inside ? own.column : static_cast<int>(args.columns) - kOwn;
  const int row = own.row + min(own.last, 0);
  const auto last = static_cast<uint32_t>(max(own.last, 0));
  auto stride = static_cast<uint32_t>(args.matrix.strides[0]) * uint32_t{sizeof(T)};
  make_now(stride);
  const auto* const from = made_now(static_cast<const unsigned char*>(args.matrix.data) +
                                    uint64_t{static_cast<uint32_t>(row)} * stride +
                                    uint64_t{static_cast<uint32_t>(column)} * sizeof(T));
#pragma unroll
  for (uint32_t r = 0; r < kOwn; ++r) {
    const auto run =
        *reinterpret_cast<const Run<uint32_t, kWords<T>>*>(from + uint64_t{min(r, last)} * stride);
#pragma unroll
    for (int w = 0; w < kWords<T>; ++w) tile.words[r][w] = run.values[w];
  }
  return tile;
}

/// Codes of a row of the tile, whose words are multiplied by `factors`: of BF16 two in a word, else
/// a number each.
template <class T, bool kE5m2, class Factors>
__device__ Run<uint32_t, kOwn / 4> encode_row(const uint32_t (&words)[kWords<T>],
                                              Factors&& factors) {
  float x[kOwn];
#pragma unroll
  for (int w = 0; w < kWords<T>; ++w) {
    float each[kInWord<T>];
    if constexpr (std::is_same_v<T, Bf16>) {
      widen_word<T>(times_bf16(words[w], factors(w)), each);
    } else {
      widen_word<T>(words[w], each);
    }
#pragma unroll
    for (int i = 0; i < kInWord<T>; ++i) {
      const int c = w * kInWord<T> + i;
      if constexpr (std::is_same_v<T, Bf16>) {
        x[c] = each[i];
      } else {
        x[c] = each[i] * __uint_as_float(factors(c));
      }
    }
  }
  return encode_run<kE5m2>(x);
}

/// The factor of FP32 as encode_row reads it. BF16 represents all of them.
template <class T>
__device__ uint32_t factor_word(uint32_t first, uint32_t second) {
  return std::is_same_v<T, Bf16> ? upper_halves(first, second) : first;
}

}  // namespace viaduct::cuda
