// FP8 operands in groups of rows and columns, read once: a block has a tile of 128 × 128 elements
// in registers, 8 × 8 of each thread, finds the largest magnitude of each group and writes the
// codes, 8 at a time. For what is aligned and in even rows; quantize.cu has the rest.

#include "ops/cuda/kernels/quantize_tile.cuh"
#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {
namespace {

/// How the groups of a tile lie: along rows, along columns, or one.
enum class TileGroups { rows, columns, square };

/// Of the columns of a tile: largest magnitudes of 8 rows each, and then the factors of groups of
/// at least 32 rows.
template <class T>
struct ColumnTile {
  uint32_t most[kAcross][kSide / kInWord<T>];
  uint32_t factors[kSide / 32][kSide / (std::is_same_v<T, Bf16> ? 2 : 1)];
};

/// The logarithm of how many threads share a group of 32 or 128.
__device__ int log_of(int64_t group) {
  return group == kSide ? 4 : 2;
}

/// Words of the largest magnitudes of rows, of all lanes that share a group. Of 16-bit elements
/// word r has rows r and r + 4.
template <class T>
struct RowMost {
  uint32_t words[kOwn / kInWord<T>];
};

template <class T>
__device__ RowMost<T> most_of_rows(const OwnTile<T>& tile, int shift) {
  uint32_t most[kOwn];
#pragma unroll
  for (int r = 0; r < kOwn; ++r) {
    most[r] = tile.words[r][0];
#pragma unroll
    for (int w = 1; w < kWords<T>; ++w) most[r] = largest_in_words<T>(most[r], tile.words[r][w]);
  }
  RowMost<T> all;
#pragma unroll
  for (int r = 0; r < kOwn / kInWord<T>; ++r) {
    uint32_t& word = all.words[r];
    if constexpr (kInWord<T> == 2) {
      word = largest_in_words<T>(lower_halves(most[r], most[r + 4]),
                                 upper_halves(most[r], most[r + 4]));
    } else {
      word = most[r] & kMagnitudes<T>;
    }
    word = largest_in_words<T>(word, __shfl_xor_sync(kAllLanes, word, 1));
    word = largest_in_words<T>(word, __shfl_xor_sync(kAllLanes, word, 2));
    if (shift > 2) {
      word = largest_in_words<T>(word, __shfl_xor_sync(kAllLanes, word, 4));
      word = largest_in_words<T>(word, __shfl_xor_sync(kAllLanes, word, 8));
    }
  }
  return all;
}

/// Factors of the 8 rows, of groups of 2^shift threads: lane i of four computes those of rows i and
/// i + 4.
template <class T, bool kE5m2>
__device__ void factors_of_rows(const QuantizedRows& args, const RowMost<T>& most, int shift,
                                const OwnPlace& place, uint32_t (&factors)[kOwn]) {
  const int own = place.across % 4;
  const auto pick = [own](const uint32_t* words) {
    const uint32_t low = own % 2 == 0 ? words[0] : words[1];
    const uint32_t high = own % 2 == 0 ? words[2] : words[3];
    return own < 2 ? low : high;
  };
  uint32_t bits[2];
  if constexpr (kInWord<T> == 2) {
    magnitudes_in<T>(pick(most.words), bits);
  } else {
    bits[0] = pick(most.words), bits[1] = pick(most.words + 4);
  }
  const int group = place.column / kOwn >> shift;
  // Lanes behind the last column share groups that begin before it.
  const bool first = (group << shift) * kOwn < static_cast<int>(args.columns) &&
                     (place.across & ((1 << shift) - 1)) < 4;
  uint32_t found[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = own + 4 * half;
    found[half] =
        finish_group<kE5m2>(args, bits[half], first && r <= place.last, place.row + r, group);
  }
#pragma unroll
  for (int r = 0; r < kOwn; ++r)
    factors[r] =
        __shfl_sync(kAllLanes, found[r / 4], static_cast<int>(threadIdx.x) / 4 * 4 + r % 4);
}

/// Largest magnitudes by column of a thread's rows.
template <class T>
__device__ Run<uint32_t, kWords<T>> most_of_columns(const OwnTile<T>& tile) {
  Run<uint32_t, kWords<T>> most;
#pragma unroll
  for (int w = 0; w < kWords<T>; ++w) {
    uint32_t& word = most.values[w];
    word = tile.words[0][w];
#pragma unroll
    for (int r = 1; r < kOwn; ++r) word = largest_in_words<T>(word, tile.words[r][w]);
  }
  return most;
}

/// Makes the factors of a tile's columns, which lie in shared memory when it returns.
template <class T, bool kE5m2>
__device__ const ColumnTile<T>& factors_of_columns(const QuantizedRows& args, const OwnTile<T>& own,
                                                   const OwnPlace& place, int shift) {
  constexpr int kColumnWords = kSide / kInWord<T>;
  auto& tile = shared<ColumnTile<T>>();
  *reinterpret_cast<Run<uint32_t, kWords<T>>*>(&tile.most[place.down][place.across * kWords<T>]) =
      most_of_columns<T>(own);
  __syncthreads();
  const int groups = kAcross >> shift, parts = 1 << shift;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kColumnWords * groups; i += kThreads) {
    const int word = i % kColumnWords, group = i / kColumnWords;
    uint32_t most = 0;
#pragma unroll 4
    for (int part = 0; part < parts; ++part)
      most = largest_in_words<T>(most, tile.most[(group << shift) + part][word]);
    uint32_t bits[kInWord<T>], found[kInWord<T>];
    magnitudes_in<T>(most, bits);
    const int row = static_cast<int>(blockIdx.y) * groups + group;
    const int column = static_cast<int>(blockIdx.x) * kSide + word * kInWord<T>;
    const bool store = column < static_cast<int>(args.columns) &&
                       (row << shift) * kOwn < static_cast<int>(args.rows.rows);
#pragma unroll
    for (int each = 0; each < kInWord<T>; ++each)
      found[each] = finish_group<kE5m2>(args, bits[each], store, row, column + each);
    if constexpr (std::is_same_v<T, Bf16>) {
      tile.factors[group][word] = factor_word<T>(found[0], found[1]);
    } else {
#pragma unroll
      for (int each = 0; each < kInWord<T>; ++each)
        tile.factors[group][word * kInWord<T> + each] = found[each];
    }
  }
  __syncthreads();
  return tile;
}

template <class T, TileGroups kGroups, bool kE5m2>
__global__ void __launch_bounds__(kThreads) quantize_tiles_kernel(QuantizedRows args) {
  const OwnPlace place(args);
  const OwnTile<T> tile = read_tile<T>(args, place);

  // Of rows (one of each), and of columns.
  constexpr int kColumnFactors = std::is_same_v<T, Bf16> ? kOwn / 2 : kOwn;
  uint32_t factors[kOwn];
  if constexpr (kGroups == TileGroups::rows) {
    const int shift = log_of(args.group_columns);
    factors_of_rows<T, kE5m2>(args, most_of_rows<T>(tile, shift), shift, place, factors);
  } else if constexpr (kGroups == TileGroups::columns) {
    const int shift = log_of(args.group_rows);
    const auto& made = factors_of_columns<T, kE5m2>(args, tile, place, shift);
    const auto run = *reinterpret_cast<const Run<uint32_t, kColumnFactors>*>(
        &made.factors[place.down >> shift][place.across * kColumnFactors]);
#pragma unroll
    for (int c = 0; c < kColumnFactors; ++c) factors[c] = run.values[c];
  } else {
    const auto by_column = most_of_columns<T>(tile);
    uint32_t most = by_column.values[0];
#pragma unroll
    for (int w = 1; w < kWords<T>; ++w) most = largest_in_words<T>(most, by_column.values[w]);
    uint32_t bits[kInWord<T>];
    magnitudes_in<T>(most, bits);
    uint32_t all = bits[0];
    if constexpr (kInWord<T> == 2) all = LargestOf{}(all, bits[1]);
    all = join_block<kThreads>(all, LargestOf{});
    const uint32_t found = finish_group<kE5m2>(
        args, all, threadIdx.x == 0, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x));
    factors[0] = factor_word<T>(found, found);
  }

  if (!place.inside) return;
  auto stride = static_cast<uint32_t>(args.values_stride);
  make_now(stride);
  uint8_t* to = made_now(args.values + uint64_t{static_cast<uint32_t>(place.row)} * stride +
                         static_cast<uint32_t>(place.column));
#pragma unroll
  for (int r = 0; r < kOwn; ++r) {
    auto codes = encode_row<T, kE5m2>(tile.words[r], [&](int c) {
      return kGroups == TileGroups::rows      ? factor_word<T>(factors[r], factors[r])
             : kGroups == TileGroups::columns ? factors[c]
                                              : factors[0];
    });
    make_now(codes.values[0]), make_now(codes.values[1]);
    if (r <= place.last) *reinterpret_cast<Run<uint32_t, kOwn / 4>*>(to) = codes;
    to += stride;
  }
}

template <class T, bool kE5m2>
void launch_tiles(const QuantizedRows& args, Stream stream) {
  launch("quantize",
         args.group_rows == 1      ? quantize_tiles_kernel<T, TileGroups::rows, kE5m2>
         : args.group_columns == 1 ? quantize_tiles_kernel<T, TileGroups::columns, kE5m2>
                                   : quantize_tiles_kernel<T, TileGroups::square, kE5m2>,
         Grid(blocks_for(args.columns, kSide), blocks_for(args.rows.rows, kSide)), kThreads, stream,
         args);
}

template <class T>
void launch_tiles(const QuantizedRows& args, Stream stream) {
  args.e5m2 ? launch_tiles<T, true>(args, stream) : launch_tiles<T, false>(args, stream);
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
  constexpr int64_t kMostBlocks = 65535;       // of the grid's second dim
  constexpr int64_t kMost = int64_t{1} << 30;  // sizes are 32-bit numbers, strides in bytes
  if (args.amax != nullptr || args.rows.count != 1 || args.rows.offsets != nullptr ||
      !(lines || squares) || !wide || !even || args.matrix.strides[0] >= kMost ||
      args.values_stride >= kMost || args.columns >= kMost || args.scale_row_stride >= kMost ||
      args.scale_column_stride >= kMost || blocks_for(args.rows.rows, kSide) > kMostBlocks)
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
