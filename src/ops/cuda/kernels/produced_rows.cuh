#pragma once
// The forms that the threads of a block make of the rows they write (produced_rows.h). A thread has
// 8 neighbouring elements of a row; threads follow each other along the row from a multiple of 128
// columns on, so that a group of columns is a power of two of neighbouring lanes.

#include "ops/cuda/kernels/float8.cuh"
#include "ops/cuda/kernels/produced_rows.h"
#include "ops/cuda/kernels/rotation.cuh"
#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {

inline constexpr int kFormRun = 8;

/// The value that a matrix of this format holds.
__device__ inline float rounded_to(Format format, float value) {
  if (format == Format::bf16) return widened(narrowed<Bf16>(value));
  return format == Format::f16 ? widened(narrowed<F16>(value)) : value;
}

/// Calls make(at, y) for the elements [i, i + 8) of a row of `width`, with all of them at once or
/// one by one; those beyond the row are 0. `make` computes and stores the elements from `at` on.
template <int kRun, class F>
__device__ void make_run(int64_t i, int64_t width, float (&y)[kFormRun], F&& make) {
  if (kRun == kFormRun && i + kFormRun <= width) {
    make(i, y);
    return;
  }
#pragma unroll
  for (int j = 0; j < kFormRun; ++j) {
    float one[1] = {};
    if (i + j < width) make(i + j, one);
    y[j] = one[0];
  }
}

/// The forms of one block, of kRowThreads threads.
class BlockForms {
 public:
  __device__ explicit BlockForms(const ProducedRows& forms) : forms_(forms) {}

  __device__ bool rotates() const { return forms_.magnitudes == 2; }

  /// Adds this thread's elements of a row, [i, i + 8) as far as the row has them, in `format`. All
  /// threads of a warp call it together; those without elements have zeros and an i beyond `width`.
  __device__ void add(Format format, int64_t row, int64_t i, int64_t width,
                      const float (&y)[kFormRun]) {
    float x[kFormRun];
    uint32_t most = 0;
#pragma unroll
    for (int j = 0; j < kFormRun; ++j) {
      x[j] = rounded_to(format, y[j]);
      most = LargestOf{}(most, __float_as_uint(x[j]) & 0x7fffffffu);
    }
    most_ = LargestOf{}(most_, most);
    if (forms_.group_columns == 0) return;
    for (int apart = 1; apart * kFormRun < forms_.group_columns; apart *= 2)
      most = LargestOf{}(most, __shfl_xor_sync(kAllLanes, most, apart));
    if (i >= width) return;
    const float scale = scale_of(__uint_as_float(most), forms_.e5m2, false);
    const auto group = static_cast<uint32_t>(forms_.group_columns);
    if (static_cast<uint32_t>(i) % group == 0)
      store_scale(forms_.scales, forms_.scale_powers,
                  row * forms_.scale_stride + static_cast<uint32_t>(i) / group, scale);
    Run<uint8_t, kFormRun> codes;
#pragma unroll
    for (int j = 0; j < kFormRun; ++j) codes.values[j] = encode_float8(x[j] / scale, forms_.e5m2);
    uint8_t* const to = forms_.values + row * forms_.values_stride + i;
    if (forms_.wide && i + kFormRun <= width) {
      *reinterpret_cast<Run<uint8_t, kFormRun>*>(to) = codes;
      return;
    }
    for (int j = 0; j < kFormRun && i + j < width; ++j) to[j] = codes.values[j];
  }

  /// Adds a column of the 16 rows from `first` on, which the block has written before a barrier.
  __device__ void add_rotated(const Rows& matrix, int64_t first, int64_t column) {
    rotated_ = LargestOf{}(rotated_, largest_rotated(matrix, first, kRotatedRows, column));
  }

  /// After the last row, by all threads of the block.
  __device__ void finish() const {
    if (forms_.magnitudes > 0) store_most(0, most_);
    if (rotates()) store_most(1, rotated_);
  }

 private:
  __device__ void store_most(int which, uint32_t most) const {
    most = join_block<kRowThreads>(most, LargestOf{});
    if (threadIdx.x == 0) forms_.partial[which * int64_t{gridDim.x} + blockIdx.x] = most;
  }

  const ProducedRows& forms_;
  uint32_t most_ = 0, rotated_ = 0;  // bits of magnitudes
};

}  // namespace viaduct::cuda
