// What Adafactor keeps of rows and columns. A warp has a row, and a block 32 columns, whose rows
// its warps share: each result has one owner, and there are no atomics.

#include "ops/cuda/kernels/adafactor.h"
#include "ops/cuda/kernels/adafactor_units.cuh"
#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarpLanes;
constexpr uint32_t kInfinity = 0x7f800000u;

/// The largest magnitude, as bits: their order is that of the numbers.
struct LimitOf {
  using Value = uint32_t;
  __device__ explicit LimitOf(const float*, int) {}
  __device__ static uint32_t of(float g) { return __float_as_uint(g) & 0x7fffffffu; }
  __device__ static uint32_t join(uint32_t a, uint32_t b) { return LargestOf{}(a, b); }
  __device__ static void add_to(float* limits, double*, int64_t i, uint32_t most) {
    const float found = __uint_as_float(most < kInfinity ? most : kInfinity);
    if (limits[i] < found) limits[i] = found;
  }
};

/// The sum of squares in units.
struct SquaresOf {
  using Value = double;
  double unit;
  __device__ SquaresOf(const float* limit, int bits) : unit(unit_of(*limit, bits)) {}
  __device__ double of(float g) const {
    constexpr double kShift = 0x1.8p52;  // the sum has no bits below 1
    const double wide = g;
    return (wide * wide * unit + kShift) - kShift;
  }
  __device__ static double join(double a, double b) { return a + b; }
  __device__ static void add_to(float*, double* sums, int64_t i, double found) { sums[i] += found; }
};

template <class Of>
__device__ void visit_row(const AdafactorPieceRows& piece, int64_t row) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  if (row >= piece.rows) return;  // the whole warp
  const Of of(piece.row_limits + row, piece.row_bits);
  const float* const g = piece.gradient + row * piece.columns;
  typename Of::Value all = 0;
  for (int64_t c = lane; c < piece.columns; c += kWarpLanes) all = Of::join(all, of.of(g[c]));
  all = join_warp(all, [](auto a, auto b) { return Of::join(a, b); });
  if (lane == 0) Of::add_to(piece.row_limits, piece.row_sums, row, all);
}

template <class T>
struct ColumnParts {
  T values[kWarps][kWarpLanes];
};

template <class Of>
__device__ void visit_columns(const AdafactorPieceRows& piece, int64_t first) {
  using T = typename Of::Value;
  auto& parts = shared<ColumnParts<T>>();
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  const int64_t column = first + lane;
  T all = 0;
  if (column < piece.columns) {
    const Of of(piece.column_limits + column, piece.column_bits);
    for (int64_t r = warp; r < piece.rows; r += kWarps)
      all = Of::join(all, of.of(piece.gradient[r * piece.columns + column]));
  }
  parts.values[warp][lane] = all;
  __syncthreads();
  if (warp != 0 || column >= piece.columns) return;
  for (int w = 1; w < kWarps; ++w) all = Of::join(all, parts.values[w][lane]);
  Of::add_to(piece.column_limits, piece.column_sums, column, all);
}

/// The blocks of rows, and then those of columns.
template <class Of>
__global__ void __launch_bounds__(kThreads) visit_kernel(AdafactorPieceRows piece) {
  const int64_t row_blocks = (piece.rows + kWarps - 1) / kWarps, block = blockIdx.x;
  if (block < row_blocks) {
    visit_row<Of>(piece, block * kWarps + threadIdx.x / kWarpLanes);
  } else {
    visit_columns<Of>(piece, (block - row_blocks) * kWarpLanes);
  }
}

template <class Of>
void visit(const char* name, const AdafactorPieceRows& piece, Stream stream) {
  if (piece.rows == 0 || piece.columns == 0) return;
  launch(name, visit_kernel<Of>,
         Grid(blocks_for(piece.rows, kWarps) + blocks_for(piece.columns, kWarpLanes)), kThreads,
         stream, piece);
}

__device__ double mean_of_moments(const AdafactorMoments& args, double clip, double share,
                                  int64_t place, int64_t count, int64_t terms, int bits) {
  double total = 0;
  for (int64_t i = place + threadIdx.x; i < place + count; i += kThreads) {
    const double unit = unit_of(args.limits[i], bits);
    const double sum = unit == 0 ? 0 : args.sums[i] / unit;
    const double mean = clip * clip * sum / static_cast<double>(terms) + args.epsilon1;
    const double before = args.moments[i];
    args.moments[i] = static_cast<float>(before + share * (mean - before));
    total += static_cast<double>(args.moments[i]);
  }
  return join_block<kThreads>(total, SumOf{}) / static_cast<double>(count);
}

__global__ void __launch_bounds__(kThreads) adafactor_moments_kernel(AdafactorMoments args) {
  if (args.scalars[args.skip] != 0) return;  // all threads
  const double clip = args.scalars[args.clip_factor];
  const double share = pow(args.scalars[args.update], args.decay_rate);
  const AdafactorMatrixPlaces& m = args.matrix[blockIdx.x];
  const double mean = mean_of_moments(args, clip, share, m.place, m.rows, m.columns, m.row_bits);
  mean_of_moments(args, clip, share, m.column_place, m.columns, m.rows, m.column_bits);
  for (int64_t i = m.place + threadIdx.x; i < m.place + m.rows; i += kThreads)
    args.factors[i] = static_cast<float>(sqrt(mean / static_cast<double>(args.moments[i])));
  for (int64_t i = m.column_place + threadIdx.x; i < m.column_place + m.columns; i += kThreads)
    args.factors[i] = static_cast<float>(1 / sqrt(static_cast<double>(args.moments[i])));
}

}  // namespace

void adafactor_limits(const AdafactorPieceRows& piece, Stream stream) {
  visit<LimitOf>("adafactor_limits", piece, stream);
}

void adafactor_sums(const AdafactorPieceRows& piece, Stream stream) {
  visit<SquaresOf>("adafactor_sums", piece, stream);
}

void adafactor_moments(const AdafactorMoments& args, Stream stream) {
  static_assert(sizeof(AdafactorMoments) <= 4096, "what all drivers take as parameters");
  launch("adafactor_moments", adafactor_moments_kernel, Grid(args.matrices), kThreads, stream,
         args);
}

VIADUCT_KERNEL_FILE(adafactor_sums)

}  // namespace viaduct::cuda
