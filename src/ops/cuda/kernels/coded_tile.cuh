#pragma once
// Tiles of coded operands: a thread reads 16 codes that lie one after the other, and later writes
// them to shared memory as numbers of 16 bits.

#include "ops/cuda/kernels/expert_codes.cuh"
#include "ops/cuda/kernels/grouped_multiply.cuh"

namespace viaduct::cuda {

inline constexpr int kCodeRun = 16;

/// Scales of the rows of a and of b that a step multiplies.
template <int kTile>
struct StepScales {
  float of[2][kTile];
};

/// The thread's scale for a step at `depth`: of a row of a tile, a's or b's. Zero where it ends.
template <bool kLast, int kTile>
__device__ float step_scale(const CodedOperand& from, const ExpertCodes& own, int64_t row,
                            int64_t depth) {
  const int64_t kept = row + threadIdx.x % kTile;
  const int64_t r = kLast ? kept : depth, c = kLast ? depth : kept;
  return r < own.rows && c < own.columns ? group_scale(from, own, r, c) : 0.0f;
}

/// 16 codes of a thread.
template <bool kHalves>
struct CodeRun {
  static constexpr int kBytes = kHalves ? kCodeRun / 2 : kCodeRun, kWords = kBytes / 4;
  Run<uint32_t, kWords> words;
};

/// A thread's place in a tile in the order of its memory.
template <bool kLast>
struct OwnCodes {
  static constexpr int kAcross = SharedTile<kLast>::kColumns / kCodeRun;
  static_assert(SharedTile<kLast>::kRows * kAcross == kGroupedThreads);
  int row = static_cast<int>(threadIdx.x) / kAcross;
  int column = static_cast<int>(threadIdx.x) % kAcross * kCodeRun;
};

/// The codes of a tile that begins at (row, column); zero where the operand ends.
template <bool kLast, bool kHalves>
__device__ CodeRun<kHalves> read_codes(const CodedOperand& from, const ExpertCodes& own,
                                       int64_t row, int64_t column, bool wide) {
  const OwnCodes<kLast> place;
  const int64_t r = row + place.row, c = column + place.column;
  CodeRun<kHalves> codes{};
  if (r >= own.rows || c >= own.columns) return codes;
  constexpr int kInByte = kHalves ? 2 : 1;
  const uint8_t* const bytes = own.values + (r * from.stride + c) / kInByte;
  if (wide && c + kCodeRun <= own.columns) {
    codes.words = *reinterpret_cast<const Run<uint32_t, CodeRun<kHalves>::kWords>*>(bytes);
    return codes;
  }
#pragma unroll
  for (int word = 0; word < CodeRun<kHalves>::kWords; ++word) {
    uint32_t four = 0;
#pragma unroll 1  // the way of few matrices: it takes no registers from the other
    for (int i = 0; i < 4; ++i) {
      const int at = 4 * word + i;
      if (c + at * kInByte < own.columns) four |= uint32_t{bytes[at]} << 8 * i;
    }
    codes.words.values[word] = four;
  }
  return codes;
}

/// Codes of FP8 as numbers, without their scales.
template <bool kLast>
__device__ void store_codes(SharedTile<kLast>& to, const CodedOperand& from,
                            const CodeRun<false>& codes) {
  const OwnCodes<kLast> place;
  Run<uint32_t, kCodeRun / 2> pairs;
#pragma unroll
  for (int i = 0; i < kCodeRun / 4; ++i) {
    uint32_t two[2];
    from.e5m2 ? widen_e5m2(codes.words.values[i], two) : widen_e4m3(codes.words.values[i], two);
    pairs.values[2 * i] = two[0], pairs.values[2 * i + 1] = two[1];
  }
  *reinterpret_cast<Run<uint32_t, kCodeRun / 2>*>(&to.values[place.row][place.column]) = pairs;
}

/// Codes of E2M1 times the scales of their groups, for a tile that begins at (row, column).
template <bool kLast>
__device__ void store_scaled(SharedTile<kLast>& to, const CodedOperand& from,
                             const ExpertCodes& own, int64_t row, int64_t column,
                             const CodeRun<true>& codes) {
  const OwnCodes<kLast> place;
  const int64_t r = row + place.row, c = column + place.column;
  // One scale, unless groups lie along the other dim.
  const int64_t scaled = r < own.rows ? own.columns - c : 0;
  const int steps = from.group_columns == 1 ? 1 : kCodeRun;
  uint64_t left = codes.words.values[0] | uint64_t{codes.words.values[1]} << 32;
  float scale = 0, even = 0;
#pragma unroll 4
  for (int i = 0; i < kCodeRun; ++i) {
    if (i % steps == 0) scale = i < scaled ? group_scale(from, own, r, c + i) : 0.0f;
    const float x = decode_e2m1(static_cast<uint32_t>(left)) * scale;
    left >>= 4;
    if (i % 2 == 0) {
      even = x;
    } else {
      *reinterpret_cast<uint32_t*>(&to.values[place.row][place.column + i - 1]) =
          narrowed_pair<F16>(even, x);
    }
  }
}

}  // namespace viaduct::cuda
