// 4-bit operands: a block has 16 rows of 128 columns in shared memory, which it rotates by columns,
// scales by groups and encodes by rows.

#include "ops/cuda/kernels/nvfp4.h"

#include "ops/cuda/kernels/matrix_rows.cuh"
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

/// The place of a thread's 8 elements in the tile, and the tile's in its matrix.
struct Own {
  int row, column;
  int64_t matrix, first_column;
  int64_t first_row;  // of the operand
  int64_t code_row;   // where the codes of that row are
  int64_t row_in_matrix;
  int64_t scale_at;     // of the scales of the tile's first row
  int rows, code_rows;  // of the tile
  int columns;          // of the 8 elements, those of the matrix
};

__device__ Own own_elements(const Nvfp4Rows& args) {
  Own own;
  own.row = static_cast<int>(threadIdx.x) / (kColumns / kRun);
  own.column = static_cast<int>(threadIdx.x) % (kColumns / kRun) * kRun;
  const RowsOfGroup group = rows_of_group(args.rows, blockIdx.y, kRows);
  own.matrix = group.matrix, own.first_row = group.begin;
  own.row_in_matrix = group.number * kRows;
  own.rows = static_cast<int>(group.end - group.begin);
  own.code_row = args.complete_rows ? int64_t{blockIdx.y} * kRows : group.begin;
  own.code_rows = args.complete_rows ? kRows : own.rows;
  own.first_column = int64_t{blockIdx.x} * kColumns;
  const int64_t left = args.columns - own.first_column - own.column;
  own.columns = static_cast<int>(left < 0 ? 0 : left < kRun ? left : kRun);
  const int64_t groups = own.row_in_matrix / args.group_rows;
  own.scale_at =
      args.rows.offsets != nullptr
          ? (first_group(args.rows, group.matrix, args.group_rows) + groups) * args.scale_row_stride
          : group.matrix * args.scale_matrix_stride + groups * args.scale_row_stride;
  return own;
}

template <bool kWide>
__device__ void load_tile(const Nvfp4Rows& args, const Own& own, Tile& tile) {
  float x[kRun] = {};
  const void* const row = address_of(args.matrix, own.first_row + own.row);
  const int64_t column = own.first_column + own.column;
  const int count = own.row < own.rows ? own.columns : 0;
  if (kWide && count == kRun) {
    load(row, args.matrix.format, column, x);
  } else {
    for (int j = 0; j < count; ++j) {
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
  const int64_t c = own.first_column + column;
  if (row < own.rows && c < args.columns) {
    args.scales[own.scale_at + row / args.group_rows * args.scale_row_stride +
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
  __device__ Drawn(const RandomBits& random, int64_t token)
      : random_(random), token_(static_cast<uint64_t>(token)) {}
  /// `column`: counted through all matrices.
  __device__ uint32_t of(int64_t column) {
    int r = 0, beyond = random_.runs;
    while (beyond - r > 1) {
      const int middle = (r + beyond) / 2;
      (random_.begin[middle] <= column ? r : beyond) = middle;
    }
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
  if (own.columns == 0 || own.row >= own.code_rows) return;
  uint32_t codes[kRun] = {};
  const auto scaled = [&](int j) {
    return tile.values[own.row][own.column + j] / divisor_at(args, tile, own.row, own.column + j);
  };
  if (args.random.token_index == nullptr) {
    for (int j = 0; j < own.columns; ++j) codes[j] = nearest_e2m1(scaled(j));
  } else {
    const RandomBits& random_bits = args.random;
    Drawn drawn(random_bits, random_bits.one_token
                                 ? random_bits.token_index[0] + own.row_in_matrix + own.row
                                 : random_bits.token_index[own.first_row + own.row]);
    const int64_t first = own.matrix * args.columns + own.first_column + own.column;
    for (int j = 0; j < own.columns; ++j) {
      const auto random = static_cast<float>(drawn.of(first + j));
      codes[j] = encode_e2m1(scaled(j), [&](float steps) {
        return static_cast<uint32_t>(steps + (random + 0.5f) * 0x1p-16f);
      });
    }
  }
  uint8_t* const to = args.values + (own.code_row + own.row) * args.values_stride +
                      (own.first_column + own.column) / 2;
  Run<uint8_t, kRun / 2> pairs;
#pragma unroll
  for (int j = 0; j < kRun; j += 2)
    pairs.values[j / 2] = static_cast<uint8_t>(codes[j] | codes[j + 1] << 4);
  if (kWide && own.columns == kRun) {
    *reinterpret_cast<Run<uint8_t, kRun / 2>*>(to) = pairs;
  } else {
    for (int j = 0; j < own.columns; j += 2) to[j / 2] = pairs.values[j / 2];
  }
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads) quantize_nvfp4_kernel(Nvfp4Rows args) {
  auto& tile = shared<Tile>();
  if (blockIdx.x == 0 && blockIdx.y == 0) {
    for (int64_t m = threadIdx.x; m < args.rows.count; m += kThreads)
      args.matrix_scale[m] = matrix_scale_of(args.amax[m]);
  }
  const Own own = own_elements(args);
  if (own.rows <= 0) return;  // the whole block
  const float matrix_scale = matrix_scale_of(args.amax[own.matrix]);
  load_tile<kWide>(args, own, tile);
  make_scales(args, own, matrix_scale, tile);
  encode<kWide>(args, own, tile);
}

}  // namespace

void quantize_nvfp4(const Nvfp4Rows& args, Stream stream) {
  static_assert(sizeof(Nvfp4Rows) <= 4096, "what all drivers take as parameters");
  // A matrix without elements still has a scale.
  const int64_t across = blocks_for(args.columns, kColumns), down = row_groups(args.rows, kRows);
  const bool wide = is_wide(args.matrix) && is_wide(args.values) && args.values_stride % 4 == 0;
  launch("quantize_nvfp4", wide ? quantize_nvfp4_kernel<true> : quantize_nvfp4_kernel<false>,
         Grid(across > 0 ? across : 1, down > 0 ? down : 1), kThreads, stream, args);
}

VIADUCT_KERNEL_FILE(nvfp4)

}  // namespace viaduct::cuda
