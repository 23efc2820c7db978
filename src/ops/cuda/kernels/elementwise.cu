// Elementwise arithmetic over rows, 8 elements at a time where memory allows.

#include "ops/cuda/kernels/elementwise.h"

#include "ops/cuda/kernels/kernel.h"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256;

__device__ float value_of(Elementwise kind, float a, float b, float factor) {
  switch (kind) {
    case Elementwise::multiply:
      return a * b;
    case Elementwise::scale:
      return factor * a;
    case Elementwise::copy:
      return a;
    case Elementwise::fill:
      return factor;
    default:
      return a + b;
  }
}

template <int kRun>
__global__ void __launch_bounds__(kThreads) elementwise_kernel(ElementwiseRows args) {
  for_elements<kRun>(args.rows, args.width, kThreads, [&](int64_t row, int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    float a[n] = {}, b[n] = {}, out[n];
    void* const to = address_of(args.out, row);
    if (args.a.data != nullptr) load(address_of(args.a, row), args.a.format, i, a);
    if (args.kind == Elementwise::accumulate) {
      load(to, args.out.format, i, b);
    } else if (args.b.data != nullptr) {
      load(address_of(args.b, row / args.rows_of_b), args.b.format, i, b);
    }
#pragma unroll
    for (int j = 0; j < n; ++j) out[j] = value_of(args.kind, a[j], b[j], args.factor);
    store(to, args.out.format, i, out);
  });
}

__global__ void __launch_bounds__(kThreads) elementwise_f64_kernel(ElementwiseF64 args) {
  for_elements<1>(1, args.count, kThreads, [&](int64_t, int64_t i, auto) {
    args.out[i] = args.kind == Elementwise::add     ? args.a[i] + args.b[i]
                  : args.kind == Elementwise::scale ? args.factor * args.a[i]
                                                    : args.factor;
  });
}

template <int kRun>
__global__ void __launch_bounds__(kThreads) sum_rows_kernel(SumOfRows args) {
  for_elements<kRun>(1, args.width, kThreads, [&](int64_t, int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    float sum[n], x[n];
    load(address_of(args.x, 0), args.x.format, i, sum);
    for (int64_t row = 1; row < args.rows; ++row) {
      load(address_of(args.x, row), args.x.format, i, x);
#pragma unroll
      for (int j = 0; j < n; ++j) sum[j] += x[j];
    }
    store(args.out.data, args.out.format, i, sum);
  });
}

}  // namespace

void elementwise(const ElementwiseRows& args, Stream stream) {
  const bool wide = is_wide(args.a) && is_wide(args.b) && is_wide(args.out);
  launch("elementwise", wide ? elementwise_kernel<8> : elementwise_kernel<1>,
         grid_for_elements(args.rows, args.width, wide ? 8 : 1, kThreads), kThreads, stream, args);
}

void elementwise_f64(const ElementwiseF64& args, Stream stream) {
  launch("elementwise_f64", elementwise_f64_kernel, grid_for_elements(1, args.count, 1, kThreads),
         kThreads, stream, args);
}

void sum_rows(const SumOfRows& args, Stream stream) {
  const bool wide = is_wide(args.x) && is_wide(args.out);
  launch("sum_rows", wide ? sum_rows_kernel<8> : sum_rows_kernel<1>,
         grid_for_elements(1, args.width, wide ? 8 : 1, kThreads), kThreads, stream, args);
}

VIADUCT_KERNEL_FILE(elementwise)

}  // namespace viaduct::cuda
