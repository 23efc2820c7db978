// Dropout, and uniform numbers of a router's rows.

#include "ops/cuda/kernels/kernel.h"
#include "ops/cuda/kernels/philox.cuh"
#include "ops/cuda/kernels/random.h"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256;

/// The words of features feature, feature + 1, …: one counter has four of them. For several
/// features the first must be a multiple of 4.
template <int n>
__device__ void words_of(uint64_t key, int64_t token, int64_t feature, uint32_t (&words)[n]) {
  const auto low = static_cast<uint64_t>(token), first = static_cast<uint64_t>(feature);
  if constexpr (n == 1) {
    words[0] = philox(key, low, first / 4)[static_cast<int>(first % 4)];
  } else {
#pragma unroll
    for (int j = 0; j < n; j += 4) {
      const Words four = philox(key, low, first / 4 + static_cast<uint64_t>(j / 4));
#pragma unroll
      for (int k = 0; k < 4; ++k) words[j + k] = four[k];
    }
  }
}

template <int kRun>
__global__ void __launch_bounds__(kThreads) dropout_kernel(DropoutRows args) {
  for_elements<kRun>(args.rows, args.width, kThreads, [&](int64_t row, int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    float x[n], base[n] = {}, out[n];
    uint32_t words[n];
    words_of(args.key, args.token_index[row], args.first_feature + i, words);
    load(address_of(args.x, row), args.x.format, i, x);
    const bool has_base = args.residual.data != nullptr;
    if (has_base) load(address_of(args.residual, row), args.residual.format, i, base);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const float kept = x[j] * (words[j] >> 9 >= args.threshold ? args.factor : 0.0f);
      out[j] = has_base ? base[j] + kept : kept;
    }
    store(address_of(args.out, row), args.out.format, i, out);
  });
}

template <int kRun>
__global__ void __launch_bounds__(kThreads) uniform_rows_kernel(UniformRows args) {
  for_elements<kRun>(args.rows, args.width, kThreads, [&](int64_t row, int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    float x[n] = {}, out[n];
    uint32_t words[n];
    words_of(args.key, args.token_index[row], i, words);
    if (args.x.data != nullptr) load(address_of(args.x, row), args.x.format, i, x);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const float u = uniform_open_of(words[j]);
      out[j] = args.x.data != nullptr ? x[j] * (1.0f + args.epsilon * (2.0f * u - 1.0f)) : u;
    }
    store(address_of(args.out, row), args.out.format, i, out);
  });
}

}  // namespace

void dropout(const DropoutRows& args, Stream stream) {
  const bool wide =
      is_wide(args.x) && is_wide(args.residual) && is_wide(args.out) && args.first_feature % 4 == 0;
  launch("dropout", wide ? dropout_kernel<8> : dropout_kernel<1>,
         grid_for_elements(args.rows, args.width, wide ? 8 : 1, kThreads), kThreads, stream, args);
}

void uniform_rows(const UniformRows& args, Stream stream) {
  const bool wide = is_wide(args.x) && is_wide(args.out);
  launch("uniform_rows", wide ? uniform_rows_kernel<8> : uniform_rows_kernel<1>,
         grid_for_elements(args.rows, args.width, wide ? 8 : 1, kThreads), kThreads, stream, args);
}

VIADUCT_KERNEL_FILE(random_uniform)

}  // namespace viaduct::cuda
