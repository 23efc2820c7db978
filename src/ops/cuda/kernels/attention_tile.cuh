#pragma once
// Tiles of q, k, v and d_out in shared memory, and their products: by matrix units for 16-bit
// elements and codes of FP8, by fused multiply-adds for FP32. A warp makes 16 rows of a product,
// which its lanes hold as mma.sync does (mma.cuh); FP32 has the same places, so that the kernels
// are written once.

#include "ops/cuda/kernels/async_copy.cuh"
#include "ops/cuda/kernels/attention_block.cuh"
#include "ops/cuda/kernels/code_numbers.cuh"
#include "ops/cuda/kernels/mma.cuh"

namespace viaduct::cuda {

/// An element in FP8. Tiles hold the numbers of codes in FP16, which represents all of them.
struct Code {
  uint8_t bits;
};
template <class T>
inline constexpr bool kCodes = std::is_same_v<T, Code>;
template <class T>
using TileElement = std::conditional_t<kCodes<T>, F16, T>;

/// Rows of a tile begin 16 bytes beyond a multiple of 32, so that 8 rows lie in different banks.
template <class T, int kRows, int kWidth>
struct Tile {
  static constexpr int kPitch = kWidth + 16 / static_cast<int>(sizeof(T));
  alignas(16) T rows[kRows][kPitch];
};

/// A warp's part of a product: 16 rows of kColumns.
template <int kColumns>
using Part = float[kColumns / 8][4];

/// This lane's rows of a part are row_of(lane) and 8 further, its columns of (n, i) column_of.
__device__ inline int lane_of() {
  return static_cast<int>(threadIdx.x) % kWarpLanes;
}
__device__ inline int row_of(int i) {
  return lane_of() / 4 + i / 2 * 8;
}
__device__ inline int column_of(int n, int i) {
  return n * 8 + lane_of() % 4 * 2 + i % 2;
}

/// Begins to copy rows of `width` elements into a tile: row r from `address(r)`, zeros if that is
/// null and beyond the width. Complete after `wait_for_copies` and a barrier.
template <int kThreads, class T, int kRows, int kWidth, class Address>
__device__ void fill_tile(Tile<T, kRows, kWidth>& tile, int width, bool wide, const void* anywhere,
                          Address&& address) {
  constexpr int kRun = 16 / static_cast<int>(sizeof(T)), kRuns = kWidth / kRun;
  if (wide) {
    for (int c = static_cast<int>(threadIdx.x); c < kRows * kRuns; c += kThreads) {
      const int at = c % kRuns * kRun;
      const T* from = address(c / kRuns);
      const bool there = from != nullptr && at < width;
      begin_copy(&tile.rows[c / kRuns][at], there ? from + at : anywhere, there);
    }
  } else {
    for (int c = static_cast<int>(threadIdx.x); c < kRows * kWidth; c += kThreads) {
      const int at = c % kWidth;
      const T* from = address(c / kWidth);
      tile.rows[c / kWidth][at] = from != nullptr && at < width ? from[at] : T{};
    }
  }
}

/// The same from rows of codes, 16 of which a thread reads at once if `wide`. Complete after a
/// barrier.
template <int kThreads, int kRows, int kWidth, class Address>
__device__ void fill_with_codes(Tile<F16, kRows, kWidth>& tile, int width, bool wide, bool e5m2,
                                Address&& address) {
  constexpr int kRuns = kWidth / 16;
  if (wide) {
    for (int c = static_cast<int>(threadIdx.x); c < kRows * kRuns; c += kThreads) {
      const int at = c % kRuns * 16;
      const Code* from = address(c / kRuns);
      Run<uint32_t, 4> codes = {};
      if (from != nullptr && at < width)
        codes = *reinterpret_cast<const Run<uint32_t, 4>*>(from + at);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Run<uint32_t, 4> numbers;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const uint32_t four = codes.values[2 * half + i];
          uint32_t two[2];
          e5m2 ? widen_e5m2(four, two) : widen_e4m3(four, two);
          numbers.values[2 * i] = two[0], numbers.values[2 * i + 1] = two[1];
        }
        *reinterpret_cast<Run<uint32_t, 4>*>(&tile.rows[c / kRuns][at + 8 * half]) = numbers;
      }
    }
  } else {
    for (int c = static_cast<int>(threadIdx.x); c < kRows * kWidth; c += kThreads) {
      const int at = c % kWidth;
      const Code* from = address(c / kWidth);
      tile.rows[c / kWidth][at] =
          from != nullptr && at < width ? narrowed<F16>(decode_float8(from[at].bits, e5m2)) : F16{};
    }
  }
}

/// Rows `address(r)` of elements or of codes.
template <class T, int kThreads, int kRows, int kWidth, class Address>
__device__ void fill(Tile<TileElement<T>, kRows, kWidth>& tile, int width, bool wide, bool e5m2,
                     const void* anywhere, Address&& address) {
  if constexpr (kCodes<T>) {
    fill_with_codes<kThreads>(tile, width, wide, e5m2, address);
  } else {
    fill_tile<kThreads>(tile, width, wide, anywhere, address);
  }
}

/// Rows of a key-value head, as (query, member) pairs of `heads` [T, N, …]. `e5m2`: of codes.
template <class T, int kThreads, int kRows, int kWidth>
__device__ void fill_rows(Tile<TileElement<T>, kRows, kWidth>& tile, const AttentionProblemView& p,
                          const AttentionBlock& block, const Heads& heads, int width, int kv_head,
                          int first, bool e5m2 = false) {
  const auto* data = static_cast<const T*>(heads.data);
  const int end = block.queries * p.group;
  fill<T, kThreads>(tile, width, p.wide, e5m2, data, [&](int r) -> const T* {
    const int row = first + r;
    if (row >= end) return nullptr;
    return data + (block.first_query + row / p.group) * heads.token +
           (int64_t{kv_head} * p.group + row % p.group) * heads.head;
  });
}

/// Keys or values [first, …) of a key-value head.
template <class T, int kThreads, int kRows, int kWidth>
__device__ void fill_keys(Tile<TileElement<T>, kRows, kWidth>& tile, const AttentionProblemView& p,
                          const AttentionBlock& block, const Heads& heads, int width, int kv_head,
                          int first) {
  const auto* data = static_cast<const T*>(heads.data);
  fill<T, kThreads>(tile, width, p.wide, false, data, [&](int r) -> const T* {
    if (first + r >= block.keys) return nullptr;
    return data + (block.first_key + first + r) * heads.token + kv_head * heads.head;
  });
}

/// sums = a[row, …, row + 16) · bᵀ over `width` columns.
template <class T, int kRowsA, int kRowsB, int kWidth>
__device__ void multiply(Part<kRowsB>& sums, const Tile<T, kRowsA, kWidth>& a, int row,
                         const Tile<T, kRowsB, kWidth>& b, int width) {
#pragma unroll
  for (int n = 0; n < kRowsB / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[n][i] = 0;
  if constexpr (sizeof(T) == 2) {
    const int lane = lane_of();
#pragma unroll
    for (int k = 0; k < kWidth; k += 16) {
      if (k >= width) break;
      uint32_t left[4];
      load_matrices<false>(left, &a.rows[row + lane % 16][k + lane / 16 * 8]);
#pragma unroll
      for (int n = 0; n < kRowsB / 16; ++n) {
        uint32_t right[4];  // of columns 16n…, and of 8 further
        load_matrices<false>(right,
                             &b.rows[n * 16 + lane / 16 * 8 + lane % 8][k + lane / 8 % 2 * 8]);
        mma_16x8x16<T>(sums[2 * n], left, {right[0], right[1]});
        mma_16x8x16<T>(sums[2 * n + 1], left, {right[2], right[3]});
      }
    }
  } else {
    for (int k = 0; k < width; ++k) {
      const float left[2] = {a.rows[row + row_of(0)][k], a.rows[row + row_of(2)][k]};
#pragma unroll
      for (int n = 0; n < kRowsB / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          sums[n][i] = fmaf(left[i / 2], b.rows[column_of(n, i)][k], sums[n][i]);
    }
  }
}

/// Where FP32's left operands are stored while other lanes read them; 16-bit ones stay in
/// registers.
template <class T, int kWarps, int kColumns>
struct Exchange {
  float rows[kWarps][16][kColumns + 1];
};
template <int kWarps, int kColumns>
struct Exchange<Bf16, kWarps, kColumns> {};
template <int kWarps, int kColumns>
struct Exchange<F16, kWarps, kColumns> {};

/// sums [16, kColumns] += left [16, kRowsB] · b's columns from `first` on; those beyond b's `width`
/// are left out. 16-bit elements: `left` is rounded to them.
template <class T, int kColumns, int kWarps, int kRowsB, int kWidth>
__device__ void add_product(Part<kColumns>& sums, const Part<kRowsB>& left,
                            const Tile<T, kRowsB, kWidth>& b, int first, int width,
                            Exchange<T, kWarps, kRowsB>& exchange) {
  const int lane = lane_of();
  if constexpr (sizeof(T) == 2) {
#pragma unroll
    for (int k = 0; k < kRowsB / 16; ++k) {
      const uint32_t a[4] = {narrowed_pair<T>(left[2 * k][0], left[2 * k][1]),
                             narrowed_pair<T>(left[2 * k][2], left[2 * k][3]),
                             narrowed_pair<T>(left[2 * k + 1][0], left[2 * k + 1][1]),
                             narrowed_pair<T>(left[2 * k + 1][2], left[2 * k + 1][3])};
#pragma unroll
      for (int n = 0; n < kColumns / 16; ++n) {
        if (first + n * 16 >= width) break;
        uint32_t right[4];
        load_matrices<true>(right, &b.rows[k * 16 + lane % 16][first + n * 16 + lane / 16 * 8]);
        mma_16x8x16<T>(sums[2 * n], a, {right[0], right[1]});
        mma_16x8x16<T>(sums[2 * n + 1], a, {right[2], right[3]});
      }
    }
  } else {
    auto& rows = exchange.rows[threadIdx.x / kWarpLanes];
    __syncwarp();  // the last product has been made
#pragma unroll
    for (int n = 0; n < kRowsB / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) rows[row_of(i)][column_of(n, i)] = left[n][i];
    __syncwarp();
    for (int k = 0; k < kRowsB; ++k) {
      const float a[2] = {rows[row_of(0)][k], rows[row_of(2)][k]};
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
        if (first + n * 8 >= width) break;
#pragma unroll
        for (int i = 0; i < 4; ++i)
          sums[n][i] = fmaf(a[i / 2], b.rows[k][first + column_of(n, i)], sums[n][i]);
      }
    }
  }
}

/// to[…, first + column] += factor · sums for this lane's elements of a row half (0 or 1).
template <int kColumns>
__device__ void add_row(float* to, int half, const Part<kColumns>& sums, int first, int width,
                        float factor) {
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = first + column_of(n, i);
      if (column < width) to[column] += factor * sums[n][2 * half + i];
    }
}

/// What a block of a kernel for heads of up to kD elements works on. Own: its rows or keys, 16 for
/// each warp. Other: what it loops over, two alternating tiles, so that one is copied while the
/// other is used.
template <class T, int kD>
struct TileShape {
  static constexpr bool kFp32 = sizeof(T) == 4;
  static constexpr int kWarps = kFp32 && kD > 192 ? 2 : 4;
  static constexpr int kThreads = kWarps * kWarpLanes;
  static constexpr int kOwn = kWarps * 16;
  static constexpr int kOther = kD <= 64 ? (kFp32 ? 32 : 64) : kFp32 ? 16 : 32;
};
/// Shared memory that a block may have on sm_80, for kernels that do not run everywhere.
inline constexpr size_t kSharedLimit = 163 * 1024;
/// The same for heads of up to kD elements.
template <int kD>
inline constexpr size_t kForwardLimit =
    kD <= kSmallForward ? size_t{kLeastBlockMemory} : kSharedLimit;
template <class T, int kD>
inline constexpr size_t kBackwardLimit = kD <= small_backward(sizeof(T) == 4)
                                             ? size_t{kLeastBlockMemory}
                                             : kSharedLimit;

/// Calls f(element, Count<kD>, Count<kDv>) for the kernel that a problem runs in.
template <class F>
void with_attention_kernel(const AttentionProblemView& p, F&& f) {
  const HeadWidths* widths = head_widths_for(p.width, p.value_width);
  const auto of_format = [&](auto element) {
    if (widths == &kHeadWidths[0]) f(element, Count<64>{}, Count<64>{});
    if (widths == &kHeadWidths[1]) f(element, Count<128>{}, Count<128>{});
    if (widths == &kHeadWidths[2]) f(element, Count<192>{}, Count<128>{});
    if (widths == &kHeadWidths[3]) f(element, Count<256>{}, Count<256>{});
  };
  if (p.codes.scales != nullptr) return of_format(Code{});
  if (p.format == Format::bf16) return of_format(Bf16{});
  if (p.format == Format::f16) return of_format(F16{});
  of_format(float{});
}

}  // namespace viaduct::cuda
