// From FP8 codes to BF16: a thread for eight codes of a row, or for one where rows are not aligned.

#include "ops/cuda/kernels/expand.h"

#include "ops/cuda/kernels/float8.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256;

__device__ float scale_at(const ExpandedRows& args, int64_t row, int64_t column) {
  const int64_t at = row / args.group_rows * args.scale_row_stride +
                     column / args.group_columns * args.scale_column_stride;
  return args.scale_powers != nullptr ? power_of(args.scale_powers[at]) : args.scales[at];
}

template <int kRun>
__global__ void __launch_bounds__(kThreads) expand_kernel(ExpandedRows args) {
  for_elements<kRun>(args.rows, args.columns, kThreads, [&](int64_t row, int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    const auto codes =
        *reinterpret_cast<const Run<uint8_t, n>*>(args.codes + row * args.stride + i);
    Run<Bf16, n> out;
    // A run of eight begins at a multiple of eight, so that it has one scale if groups have whole
    // runs.
    const bool one_scale = args.group_columns % n == 0;
    float scale = scale_at(args, row, i);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      if (!one_scale) scale = scale_at(args, row, i + j);
      out.values[j] = narrowed<Bf16>(decode_float8(codes.values[j], args.e5m2) * scale);
    }
    *reinterpret_cast<Run<Bf16, n>*>(static_cast<Bf16*>(args.out) + row * args.columns + i) = out;
  });
}

}  // namespace

void expand(const ExpandedRows& args, Stream stream) {
  const bool wide =
      is_wide(args.codes) && is_wide(args.out) && args.stride % 8 == 0 && args.columns % 8 == 0;
  launch("expand", wide ? expand_kernel<8> : expand_kernel<1>,
         grid_for_elements(args.rows, args.columns, wide ? 8 : 1, kThreads), kThreads, stream,
         args);
}

VIADUCT_KERNEL_FILE(expand)

}  // namespace viaduct::cuda
