// FP8 operands in groups of rows and columns, read once: a block has a tile of 128 × 128 elements
// in registers, 8 × 8 of each thread, finds the largest magnitude of each group and writes the
// codes, 8 at a time. For what is aligned and in even rows; quantize.cu has the rest.

#include "ops/cuda/kernels/float8.cuh"
#include "ops/cuda/kernels/quantize.h"
#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256, kSide = 128, kOwn = 8, kAcross = kSide / kOwn;

/// Largest magnitudes of 8 rows each, by column.
struct TileMost {
  uint32_t columns[kAcross][kSide];
};

/// How the groups of a tile lie: along rows, along columns, or one.
enum class TileGroups { rows, columns, square };

/// Bits of the scale of a group, and of what its elements are multiplied by, 1 / scale.
struct PowerScale {
  uint32_t scale, factor;
};

/// Zero, numbers that are not finite, and scales that are not normal. Not inlined: it is long.
__attribute__((noinline)) __device__ PowerScale rare_scale_of(uint32_t most, bool e5m2) {
  const float scale = scale_of(__uint_as_float(most), e5m2, false);
  return {__float_as_uint(scale), __float_as_uint(1.0f / scale)};  // exact of a power of two
}

/// The same as `scale_of` of a group. 448 and 57344 are 1.75 · 2^8 and 1.75 · 2^15, and a quotient
/// that is larger than a power of two is never rounded to it, so that the mantissa of the largest
/// magnitude decides; others are rare.
__device__ PowerScale scale_of_most(uint32_t most, bool e5m2) {
  const uint32_t shift = e5m2 ? 15 : 8;
  if (most >= (shift + 2) << 23 && most < 0x7f800000u) {
    const uint32_t power = ((most + 0x1fffffu) >> 23) - shift;
    return {power << 23, (254 - power) << 23};
  }
  return rare_scale_of(most, e5m2);
}

/// The factor of the elements of group (row, column); `store`: this thread writes its scale.
__device__ float finish_group(const QuantizedRows& args, uint32_t most, bool store, int64_t row,
                              int64_t column) {
  const PowerScale found = scale_of_most(most, args.e5m2);
  if (store)
    store_scale(args.scales, args.scale_powers,
                row * args.scale_row_stride + column * args.scale_column_stride,
                __uint_as_float(found.scale));
  return __uint_as_float(found.factor);
}

__device__ uint32_t magnitude_of(float x) {
  return __float_as_uint(x) & 0x7fffffffu;
}

template <class T, TileGroups kGroups>
__global__ void __launch_bounds__(kThreads) quantize_tiles_kernel(QuantizedRows args) {
  const int across = static_cast<int>(threadIdx.x) % kAcross;
  const int down = static_cast<int>(threadIdx.x) / kAcross;
  const int64_t column = int64_t{blockIdx.x} * kSide + across * kOwn;
  const int64_t row = int64_t{blockIdx.y} * kSide + down * kOwn;
  const bool inside = column < args.columns;
  float x[kOwn][kOwn];
  const int64_t stride = args.matrix.strides[0];
  const T* from = static_cast<const T*>(args.matrix.data) + row * stride + column;
#pragma unroll
  for (int r = 0; r < kOwn; ++r) {
    if (inside && row + r < args.rows.rows) {
      load_run(from + r * stride, x[r]);
    } else {
#pragma unroll
      for (int c = 0; c < kOwn; ++c) x[r][c] = 0;
    }
  }

  if constexpr (kGroups == TileGroups::rows) {
    const int lanes = static_cast<int>(args.group_columns) / kOwn;  // 4 or 16
    const int64_t group = int64_t{blockIdx.x} * (kAcross / lanes) + across / lanes;
#pragma unroll
    for (int r = 0; r < kOwn; ++r) {
      uint32_t most = 0;
#pragma unroll
      for (int c = 0; c < kOwn; ++c) most = LargestOf{}(most, magnitude_of(x[r][c]));
      most = LargestOf{}(most, __shfl_xor_sync(kAllLanes, most, 1));
      most = LargestOf{}(most, __shfl_xor_sync(kAllLanes, most, 2));
      if (lanes == kAcross) {
        most = LargestOf{}(most, __shfl_xor_sync(kAllLanes, most, 4));
        most = LargestOf{}(most, __shfl_xor_sync(kAllLanes, most, 8));
      }
      const bool store = inside && across % lanes == 0 && row + r < args.rows.rows;
      const float factor = finish_group(args, most, store, row + r, group);
#pragma unroll
      for (int c = 0; c < kOwn; ++c) x[r][c] *= factor;
    }
  } else {
    Run<uint32_t, kOwn> of_columns;
    auto& most = of_columns.values;
#pragma unroll
    for (int c = 0; c < kOwn; ++c) {
      most[c] = 0;
#pragma unroll
      for (int r = 0; r < kOwn; ++r) most[c] = LargestOf{}(most[c], magnitude_of(x[r][c]));
    }
    if constexpr (kGroups == TileGroups::columns) {
      auto& tile = shared<TileMost>();
      auto* const place =
          reinterpret_cast<Run<uint32_t, kOwn>*>(&tile.columns[down][across * kOwn]);
      *place = of_columns;
      __syncthreads();
      const int parts = static_cast<int>(args.group_rows) / kOwn;  // 4 or 16
      for (int apart = 1; apart < parts; ++apart) {
        const auto* const other = reinterpret_cast<const Run<uint32_t, kOwn>*>(
            &tile.columns[down ^ apart][across * kOwn]);
#pragma unroll
        for (int c = 0; c < kOwn; ++c) most[c] = LargestOf{}(most[c], other->values[c]);
      }
      const int64_t group = int64_t{blockIdx.y} * (kAcross / parts) + down / parts;
      const bool store = inside && down % parts == 0 && row < args.rows.rows;
#pragma unroll
      for (int c = 0; c < kOwn; ++c) {
        const float factor = finish_group(args, most[c], store, group, column + c);
#pragma unroll
        for (int r = 0; r < kOwn; ++r) x[r][c] *= factor;
      }
    } else {
      uint32_t all = 0;
#pragma unroll
      for (int c = 0; c < kOwn; ++c) all = LargestOf{}(all, most[c]);
      all = join_block<kThreads>(all, LargestOf{});
      const float factor = finish_group(args, all, threadIdx.x == 0, blockIdx.y, blockIdx.x);
#pragma unroll
      for (int r = 0; r < kOwn; ++r) {
#pragma unroll
        for (int c = 0; c < kOwn; ++c) x[r][c] *= factor;
      }
    }
  }

  if (!inside) return;
  uint8_t* const to = args.values + row * args.values_stride + column;
#pragma unroll
  for (int r = 0; r < kOwn; ++r) {
    if (row + r >= args.rows.rows) return;
    *reinterpret_cast<Run<uint32_t, kOwn / 4>*>(to + r * args.values_stride) =
        args.e5m2 ? encode_run<true>(x[r]) : encode_run<false>(x[r]);
  }
}

template <class T>
void launch_tiles(const QuantizedRows& args, Stream stream) {
  launch("quantize",
         args.group_rows == 1      ? quantize_tiles_kernel<T, TileGroups::rows>
         : args.group_columns == 1 ? quantize_tiles_kernel<T, TileGroups::columns>
                                   : quantize_tiles_kernel<T, TileGroups::square>,
         Grid(blocks_for(args.columns, kSide), blocks_for(args.rows.rows, kSide)), kThreads, stream,
         args);
}

}  // namespace

bool quantize_tiles(const QuantizedRows& args, Stream stream) {
  const auto is_long = [](int64_t group) { return group == 32 || group == kSide; };
  const bool lines = (args.group_rows == 1 && is_long(args.group_columns)) ||
                     (args.group_columns == 1 && is_long(args.group_rows));
  const bool squares = args.group_rows == kSide && args.group_columns == kSide;
  const bool even = args.matrix.middle * args.matrix.inner == 1;
  const bool wide = is_wide(args.matrix) && is_wide(args.values) &&
                    args.values_stride % kOwn == 0 && args.columns % kOwn == 0;
  constexpr int64_t kMostBlocks = 65535;  // of the grid's second dim
  if (args.amax != nullptr || args.rows.count != 1 || args.rows.offsets != nullptr ||
      !(lines || squares) || !wide || !even || blocks_for(args.rows.rows, kSide) > kMostBlocks)
    return false;
  if (args.matrix.format == Format::f32) {
    launch_tiles<float>(args, stream);
  } else if (args.matrix.format == Format::bf16) {
    launch_tiles<Bf16>(args, stream);
  } else {
    launch_tiles<F16>(args, stream);
  }
  return true;
}

VIADUCT_KERNEL_FILE(quantize_tiles)

}  // namespace viaduct::cuda
