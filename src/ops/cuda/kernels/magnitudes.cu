// The largest magnitude of a matrix, and the scales that delayed scaling makes of those of earlier
// steps.

#include "ops/cuda/kernels/matrix_rows.cuh"
#include "ops/cuda/kernels/produced_rows.h"
#include "ops/cuda/kernels/quantize.h"
#include "ops/cuda/kernels/rotation.cuh"
#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {
namespace {

constexpr uint32_t kInfinity = 0x7f800000u;

/// The blocks of a matrix: those with its number along y.
struct OwnRows {
  int64_t begin, count;
};
__device__ OwnRows own_rows(const Magnitudes& args) {
  const int64_t begin = first_row(args.rows, blockIdx.y);
  return {begin, first_row(args.rows, int64_t{blockIdx.y} + 1) - begin};
}
__device__ void store_most(const Magnitudes& args, uint32_t most) {
  most = join_block<kRowThreads>(most, LargestOf{});
  if (threadIdx.x == 0) args.workspace[int64_t{blockIdx.y} * gridDim.x + blockIdx.x] = most;
}

/// Bits of magnitudes order as the values do, and those of infinities and NaN are the largest.
template <int kRun>
__global__ void __launch_bounds__(kRowThreads) magnitudes_kernel(Magnitudes args) {
  uint32_t most = 0;
  const OwnRows own = own_rows(args);
  for_elements<kRun>(own.count, args.columns, kRowThreads, [&](int64_t row, int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    float x[n];
    load(address_of(args.matrix, own.begin + row), args.matrix.format, i, x);
#pragma unroll
    for (int j = 0; j < n; ++j) most = LargestOf{}(most, __float_as_uint(x[j]) & 0x7fffffffu);
  });
  store_most(args, most);
}

/// The same after a rotation of each 16 rows: a thread has a column of them.
__global__ void __launch_bounds__(kRowThreads) rotated_magnitudes_kernel(Magnitudes args) {
  uint32_t most = 0;
  const OwnRows own = own_rows(args);
  const int64_t bands = (own.count + kRotatedRows - 1) / kRotatedRows;
  for_elements<1>(bands, args.columns, kRowThreads, [&](int64_t band, int64_t column, auto) {
    const int64_t left = own.count - band * kRotatedRows, first = own.begin + band * kRotatedRows;
    const int there = left < kRotatedRows ? static_cast<int>(left) : kRotatedRows;
    most = LargestOf{}(most, largest_rotated(args.matrix, first, there, column));
  });
  store_most(args, most);
}

__global__ void __launch_bounds__(kRowThreads)
    largest_kernel(const uint32_t* values, int64_t count, float* out) {
  values += blockIdx.x * count;
  uint32_t most = 0;
  for (int64_t i = threadIdx.x; i < count; i += kRowThreads) most = LargestOf{}(most, values[i]);
  most = join_block<kRowThreads>(most, LargestOf{});
  if (threadIdx.x == 0) out[blockIdx.x] = __uint_as_float(most < kInfinity ? most : kInfinity);
}

__device__ bool is_finite(float x) {
  return (__float_as_uint(x) & kInfinity) != kInfinity;
}

__global__ void __launch_bounds__(kRowThreads) note_amax_kernel(NotedAmax args) {
  for_elements<1>(1, args.count, kRowThreads, [&](int64_t, int64_t i, auto) {
    args.noted[i] = args.noted[i] < args.amax[i] ? args.amax[i] : args.noted[i];
    args.out[i] = is_finite(args.amax[i]) ? args.chosen[i] : __uint_as_float(kInfinity);
  });
}

__global__ void __launch_bounds__(kRowThreads) choose_amax_kernel(AmaxHistory args) {
  for_elements<1>(1, args.tensors, kRowThreads, [&](int64_t, int64_t i, auto) {
    float* const history = args.history + i * args.steps;
    float largest = is_finite(args.noted[i]) ? args.noted[i] : 0.0f;
    for (int64_t s = args.steps - 1; s > 0; --s) history[s] = history[s - 1];
    history[0] = largest;
    args.noted[i] = 0;
    for (int64_t s = 1; s < args.steps && !args.most_recent; ++s)
      largest = largest < history[s] ? history[s] : largest;
    if (largest == 0) return;
    const float scaled = ldexpf(largest, args.margin), most = 3.4028234663852886e38f;
    args.chosen[i] = most < scaled ? most : scaled;
  });
}

/// out [matrices] from the values of `blocks` of each.
void largest_of_blocks(const uint32_t* values, int64_t blocks, int64_t matrices, float* out,
                       Stream stream) {
  launch("largest_magnitude", largest_kernel, Grid(matrices), kRowThreads, stream, values, blocks,
         out);
}

}  // namespace

void largest_magnitude(const Magnitudes& args, Stream stream) {
  const bool wide = is_wide(args.matrix);
  const int64_t rows = args.rotated ? blocks_for(args.rows.rows, kRotatedRows) : args.rows.rows;
  const Grid needed =
      grid_for_elements(rows, args.columns, wide && !args.rotated ? 8 : 1, kRowThreads);
  const int64_t most = magnitude_blocks(args.rows.count);
  const int64_t blocks = needed.x < most ? needed.x : most;
  launch("magnitudes",
         args.rotated ? rotated_magnitudes_kernel
         : wide       ? magnitudes_kernel<8>
                      : magnitudes_kernel<1>,
         Grid(blocks, args.rows.count), kRowThreads, stream, args);
  largest_of_blocks(args.workspace, blocks, args.rows.count, args.out, stream);
}

void finish_forms(const ProducedRows& forms, int64_t blocks, Stream stream) {
  if (forms.magnitudes > 0)
    largest_of_blocks(forms.partial, blocks, forms.magnitudes, forms.amax, stream);
}

void note_amax(const NotedAmax& args, Stream stream) {
  launch("note_amax", note_amax_kernel, grid_for_elements(1, args.count, 1, kRowThreads),
         kRowThreads, stream, args);
}

void choose_amax(const AmaxHistory& args, Stream stream) {
  launch("choose_amax", choose_amax_kernel, grid_for_elements(1, args.tensors, 1, kRowThreads),
         kRowThreads, stream, args);
}

VIADUCT_KERNEL_FILE(magnitudes)

}  // namespace viaduct::cuda
