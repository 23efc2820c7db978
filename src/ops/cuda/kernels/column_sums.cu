// Sums over rows in a fixed order: blocks sum the rows of a part, a second launch adds the parts.

#include "ops/cuda/kernels/kernel.h"
#include "ops/cuda/kernels/norm.h"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 128;
/// This many rows are summed before they are added to the rest, so that no sum is long.
constexpr int64_t kRowsTogether = 32;

template <int kRun>
__global__ void __launch_bounds__(kThreads) column_sums_kernel(ColumnSums args) {
  const int64_t part = blockIdx.y;
  const int64_t begin = part * args.rows / args.parts, end = (part + 1) * args.rows / args.parts;
  for_elements<kRun>(1, args.width, kThreads, [&](int64_t, int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    float all[n] = {};
    for (int64_t first = begin; first < end; first += kRowsTogether) {
      const int64_t last = first + kRowsTogether < end ? first + kRowsTogether : end;
      float sum[n] = {}, x[n];
      for (int64_t row = first; row < last; ++row) {
        load(address_of(args.x, row), args.x.format, i, x);
#pragma unroll
        for (int j = 0; j < n; ++j) sum[j] += x[j];
      }
#pragma unroll
      for (int j = 0; j < n; ++j) all[j] += sum[j];
    }
    store_run(args.partial + part * args.width + i, all);
  });
}

__global__ void __launch_bounds__(kThreads) add_parts_kernel(PartSums args) {
  for_elements<1>(1, args.width, kThreads, [&](int64_t, int64_t i, auto) {
    const float* const partial = args.partial + blockIdx.y * args.parts * args.width;
    float* const out = blockIdx.y == 0 ? args.out : args.second;
    float sum = 0;
    for (int64_t part = 0; part < args.parts; ++part) sum += partial[part * args.width + i];
    out[i] = args.accumulate ? out[i] + sum : sum;
  });
}

}  // namespace

void column_sums(const ColumnSums& args, Stream stream) {
  const bool wide = is_wide(args.x) && is_wide(args.partial) && args.width % 8 == 0;
  const Grid columns = grid_for_elements(1, args.width, wide ? 8 : 1, kThreads);
  launch("column_sums", wide ? column_sums_kernel<8> : column_sums_kernel<1>,
         Grid(columns.x, args.parts), kThreads, stream, args);
  add_parts({args.partial, args.out, nullptr, args.accumulate, args.parts, args.width}, stream);
}

void add_parts(const PartSums& args, Stream stream) {
  const Grid columns = grid_for_elements(1, args.width, 1, kThreads);
  launch("add_parts", add_parts_kernel, Grid(columns.x, args.second != nullptr ? 2 : 1), kThreads,
         stream, args);
}

VIADUCT_KERNEL_FILE(column_sums)

}  // namespace viaduct::cuda
