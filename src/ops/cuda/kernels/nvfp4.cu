// 4-bit operands: a block has 16 rows of 128 columns in shared memory, which it rotates by columns,
// scales by groups and encodes by rows.

#include "ops/cuda/kernels/nvfp4.h"

#include "ops/cuda/kernels/nvfp4.cuh"
#include "ops/cuda/kernels/philox.cuh"
#include "ops/cuda/kernels/rotation.cuh"
#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256, kRows = 16, kColumns = 128, kGroup = 16, kRun = 8;
constexpr int kGroups = kColumns / kGroup;
static_assert(kThreads * kRun == kRows * kColumns && kRows == kRotatedRows);

struct Tile {
  float values[kRows][kColumns];
  uint32_t most[kRows][kGroups];    // of each row, for groups of several columns
  float divisors[kRows][kColumns];  // [0][column], [row][group] or [0][group]
};

/// The place of a thread's 8 elements in the tile, and how many columns of the matrix there are.
struct Own {
  int row, column;
  int64_t first_row, first_column;
  int count;
};

__device__ Own own_elements(const Nvfp4Rows& args) {
  Own own;
  own.row = static_cast<int>(threadIdx.x) / (kColumns / kRun);
  own.column = static_cast<int>(threadIdx.x) % (kColumns / kRun) * kRun;
  own.first_row = int64_t{blockIdx.y} * kRows, own.first_column = int64_t{blockIdx.x} * kColumns;
  const int64_t left = args.columns - own.first_column - own.column;
  const bool there = own.first_row + own.row < args.rows && left > 0;
  own.count = there ? static_cast<int>(left < kRun ? left : kRun) : 0;
  return own;
}

template <bool kWide>
__device__ void load_tile(const Nvfp4Rows& args, const Own& own, Tile& tile) {
  float x[kRun] = {};
  const void* const row = address_of(args.matrix, own.first_row + own.row);
  const int64_t column = own.first_column + own.column;
  if (kWide && own.count == kRun) {
    load(row, args.matrix.format, column, x);
  } else {
    for (int j = 0; j < own.count; ++j) {
      float one[1];
      load(row, args.matrix.format, column + j, one);
      x[j] = one[0];
    }
  }
  for (int j = 0; j < kRun; ++j) tile.values[own.row][own.column + j] = x[j];
  __syncthreads();
  if (!args.rotated) return;
  const auto c = threadIdx.x;
  if (c < kColumns) {
    float of_column[kRows];
    for (int r = 0; r < kRows; ++r) of_column[r] = tile.values[r][c];
    rotate(of_column);
    for (int r = 0; r < kRows; ++r) tile.values[r][c] = of_column[r];
  }
  __syncthreads();
}

/// Stores the scale of the group of (row, column) of the tile; returns the divisor of its elements.
__device__ float make_scale(const Nvfp4Rows& args, const Own& own, int row, int column,
                            uint32_t most, float matrix_scale) {
  const uint8_t code = group_scale_of(__uint_as_float(most), matrix_scale);
  const int64_t r = own.first_row + row, c = own.first_column + column;
  if (r < args.rows && c < args.columns) {
    args.scales[r / args.group_rows * args.scale_row_stride +
                c / args.group_columns * args.scale_column_stride] = code;
  }
  return divisor_of(code, matrix_scale);
}

__device__ void make_scales(const Nvfp4Rows& args, const Own& own, float matrix_scale, Tile& tile) {
  const int t = static_cast<int>(threadIdx.x);
  if (args.group_columns == 1) {  // of 16 rows
    if (t < kColumns) {
      uint32_t most = 0;
      for (int r = 0; r < kRows; ++r)
        most = LargestOf{}(most, __float_as_uint(tile.values[r][t]) & 0x7fffffffu);
      tile.divisors[0][t] = make_scale(args, own, 0, t, most, matrix_scale);
    }
  } else {
    const int row = t / kGroups, group = t % kGroups;
    if (t < kRows * kGroups) {
      uint32_t most = 0;
      for (int c = group * kGroup; c < (group + 1) * kGroup; ++c)
        most = LargestOf{}(most, __float_as_uint(tile.values[row][c]) & 0x7fffffffu);
      tile.most[row][group] = most;
      if (args.group_rows == 1)
        tile.divisors[row][group] = make_scale(args, own, row, group * kGroup, most, matrix_scale);
    }
    __syncthreads();
    if (args.group_rows > 1 && t < kGroups) {
      uint32_t most = 0;
      for (int r = 0; r < kRows; ++r) most = LargestOf{}(most, tile.most[r][t]);
      tile.divisors[0][t] = make_scale(args, own, 0, t * kGroup, most, matrix_scale);
    }
  }
  __syncthreads();
}

__device__ float divisor_at(const Nvfp4Rows& args, const Tile& tile, int row, int column) {
  if (args.group_columns == 1) return tile.divisors[0][column];
  return tile.divisors[args.group_rows == 1 ? row : 0][column / kGroup];
}

/// The 16 random bits of features of one token; a counter has those of 8.
class Drawn {
 public:
  __device__ Drawn(const RandomBits& random, int64_t row)
      : random_(random), token_(static_cast<uint64_t>(random.token_index[row])) {}
  __device__ uint32_t of(int64_t column) {
    int r = 0;
    while (r + 1 < random_.runs && random_.begin[r + 1] <= column) ++r;
    const uint64_t feature = random_.first[r] + static_cast<uint64_t>(column - random_.begin[r]);
    if (!drawn_ || feature / 8 != counter_) {
      counter_ = feature / 8, drawn_ = true;
      words_ = philox(random_.key, token_, counter_);
    }
    return words_[static_cast<int>(feature % 8 / 2)] >> feature % 2 * 16 & 0xffffu;
  }

 private:
  const RandomBits& random_;
  uint64_t token_, counter_ = 0;
  bool drawn_ = false;
  Words words_{};
};

template <bool kWide>
__device__ void encode(const Nvfp4Rows& args, const Own& own, const Tile& tile) {
  if (own.count == 0) return;
  uint32_t codes[kRun] = {};
  const auto scaled = [&](int j) {
    return tile.values[own.row][own.column + j] / divisor_at(args, tile, own.row, own.column + j);
  };
  if (args.random.token_index == nullptr) {
    for (int j = 0; j < own.count; ++j) codes[j] = nearest_e2m1(scaled(j));
  } else {
    Drawn drawn(args.random, own.first_row + own.row);
    for (int j = 0; j < own.count; ++j) {
      const auto random = static_cast<float>(drawn.of(own.first_column + own.column + j));
      codes[j] = encode_e2m1(scaled(j), [&](float steps) {
        return static_cast<uint32_t>(steps + (random + 0.5f) * 0x1p-16f);
      });
    }
  }
  uint8_t* const to = args.values + (own.first_row + own.row) * args.values_stride +
                      (own.first_column + own.column) / 2;
  Run<uint8_t, kRun / 2> pairs;
#pragma unroll
  for (int j = 0; j < kRun; j += 2)
    pairs.values[j / 2] = static_cast<uint8_t>(codes[j] | codes[j + 1] << 4);
  if (kWide && own.count == kRun) {
    *reinterpret_cast<Run<uint8_t, kRun / 2>*>(to) = pairs;
  } else {
    for (int j = 0; j < own.count; j += 2) to[j / 2] = pairs.values[j / 2];
  }
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads) quantize_nvfp4_kernel(Nvfp4Rows args) {
  auto& tile = shared<Tile>();
  const float matrix_scale = matrix_scale_of(args.amax[0]);
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *args.matrix_scale = matrix_scale;
  const Own own = own_elements(args);
  load_tile<kWide>(args, own, tile);
  make_scales(args, own, matrix_scale, tile);
  encode<kWide>(args, own, tile);
}

}  // namespace

void quantize_nvfp4(const Nvfp4Rows& args, Stream stream) {
  static_assert(sizeof(Nvfp4Rows) <= 4096, "what all drivers take as parameters");
  // A matrix without elements still has a scale.
  const int64_t across = blocks_for(args.columns, kColumns), down = blocks_for(args.rows, kRows);
  const bool wide = is_wide(args.matrix) && is_wide(args.values) && args.values_stride % 4 == 0;
  launch("quantize_nvfp4", wide ? quantize_nvfp4_kernel<true> : quantize_nvfp4_kernel<false>,
         Grid(across > 0 ? across : 1, down > 0 ? down : 1), kThreads, stream, args);
}

}  // namespace viaduct::cuda
