// Rotary position embedding: each thread turns pairs of one head.

#include "ops/cuda/kernels/rotary.h"

#include "ops/cuda/kernels/kernel.h"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256;

template <int kRun>
__global__ void __launch_bounds__(kThreads) rotary_kernel(RotaryRows args) {
  for_elements<kRun>(args.tokens * args.heads, args.half, kThreads,
                     [&](int64_t row, int64_t i, auto count) {
                       constexpr int n = decltype(count)::value;
                       const int64_t position = args.positions[row / args.heads];
                       const bool known = position >= 0 && position < args.table;
                       const int64_t table = (known ? position : 0) * args.half + i;
                       void* const x = address_of(args.x, row);
                       const int64_t first = args.interleaved ? 2 * i : i;
                       const int64_t second = args.interleaved ? first + 1 : i + args.half;
                       float a[n], b[n], cos[n], sin[n];
                       load(x, args.x.format, first, a);
                       load(x, args.x.format, second, b);
                       load_run(args.cos + table, cos);
                       load_run(args.sin + table, sin);
#pragma unroll
                       for (int j = 0; j < n; ++j) {
                         const float s = args.inverse ? -sin[j] : sin[j], left = a[j], right = b[j];
                         if (!known) cos[j] = __uint_as_float(0x7fc00000u);
                         a[j] = fmaf(-right, s, left * cos[j]);
                         b[j] = fmaf(left, s, right * cos[j]);
                       }
                       store(x, args.x.format, first, a);
                       store(x, args.x.format, second, b);
                     });
}

}  // namespace

void rotary(const RotaryRows& args, Stream stream) {
  const bool wide = is_wide(args.x) && is_wide(args.cos) && is_wide(args.sin) &&
                    args.half % 8 == 0 && !args.interleaved;
  launch("rotary", wide ? rotary_kernel<8> : rotary_kernel<1>,
         grid_for_elements(args.tokens * args.heads, args.half, wide ? 8 : 1, kThreads), kThreads,
         stream, args);
}

VIADUCT_KERNEL_FILE(rotary)

}  // namespace viaduct::cuda
