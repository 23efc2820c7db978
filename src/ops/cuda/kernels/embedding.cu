// Look-up of embedding rows, and the sums of their gradients over sorted tokens.

#include "ops/cuda/kernels/embedding.h"

#include "ops/cuda/kernels/kernel.h"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256;

template <int kRun>
__global__ void __launch_bounds__(kThreads) embedding_kernel(EmbeddingRows args) {
  for_elements<kRun>(args.tokens, args.width, kThreads, [&](int64_t token, int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    const int64_t row = int64_t{args.ids[token]} - args.first_row;
    const bool here = row >= 0 && row < args.rows;
    if (!here && args.accumulate) return;
    void* const to = address_of(args.out, token);
    float w[n] = {}, out[n] = {};
    if (here) load(address_of(args.weight, row), args.weight.format, i, w);
    if (args.accumulate) load(to, args.out.format, i, out);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const float value = here ? args.scale * w[j] : 0.0f;
      out[j] = args.accumulate ? out[j] + value : value;
    }
    store(to, args.out.format, i, out);
  });
}

template <int kRun>
__global__ void __launch_bounds__(kThreads) copy_code_rows_kernel(CodeRows args) {
  for_elements<kRun>(args.tokens, args.width, kThreads, [&](int64_t token, int64_t i, auto count) {
    using Codes = Run<uint8_t, decltype(count)::value>;
    const int64_t row = int64_t{args.ids[token]} - args.first_row;
    Codes codes{};
    if (row >= 0 && row < args.rows)
      codes = *reinterpret_cast<const Codes*>(args.weight + row * args.weight_stride + i);
    *reinterpret_cast<Codes*>(args.out + token * args.out_stride + i) = codes;
  });
}

constexpr int kGradientThreads = 128;
/// No sum is longer than kTogether, plus a term for every kTogether² tokens.
constexpr int64_t kTogether = 32;

// 8 blocks of a multiprocessor: the compiler would keep registers in memory to have more of them.
template <int kRun>
__global__ void __launch_bounds__(kGradientThreads, 8)
    embedding_gradient_kernel(EmbeddingGradientRows args) {
  const int64_t first = blockIdx.x;
  const int32_t row = args.sorted[first].row;
  const bool begins = first == 0 || args.sorted[first - 1].row != row;
  if (!begins || row >= args.rows) return;  // the row's first token has the block that adds it
  for_row<kRun>(static_cast<int>(threadIdx.x), kGradientThreads, args.width,
                [&](int64_t i, auto count) {
                  constexpr int n = decltype(count)::value;
                  float all[n] = {}, blocks[n] = {}, block[n] = {}, d[n];
                  for (int64_t t = 0; first + t < args.tokens; ++t) {
                    const TokenOfRow next = args.sorted[first + t];
                    if (next.row != row) break;
                    load(address_of(args.d_out, next.token), args.d_out.format, i, d);
                    const bool full = t % kTogether == kTogether - 1;
                    const bool very_full = t % (kTogether * kTogether) == kTogether * kTogether - 1;
#pragma unroll
                    for (int j = 0; j < n; ++j) {
                      block[j] += d[j];
                      if (full) blocks[j] += block[j], block[j] = 0;
                      if (very_full) all[j] += blocks[j], blocks[j] = 0;
                    }
                  }
                  float* const to = args.d_weight + row * args.width + i;
                  float sum[n];
                  load_run(to, sum);
#pragma unroll
                  for (int j = 0; j < n; ++j) {
                    const float tokens = all[j] + (blocks[j] + block[j]);
                    sum[j] = fmaf(args.scale, tokens, sum[j]);
                  }
                  store_run(to, sum);
                });
}

}  // namespace

void copy_code_rows(const CodeRows& args, Stream stream) {
  const bool wide = is_wide(args.weight) && is_wide(args.out) && args.weight_stride % 16 == 0 &&
                    args.out_stride % 16 == 0;
  launch("copy_code_rows", wide ? copy_code_rows_kernel<16> : copy_code_rows_kernel<1>,
         grid_for_elements(args.tokens, args.width, wide ? 16 : 1, kThreads), kThreads, stream,
         args);
}

void embedding_forward(const EmbeddingRows& args, Stream stream) {
  const bool wide = is_wide(args.weight) && is_wide(args.out);
  launch("embedding_forward", wide ? embedding_kernel<8> : embedding_kernel<1>,
         grid_for_elements(args.tokens, args.width, wide ? 8 : 1, kThreads), kThreads, stream,
         args);
}

void embedding_backward(const EmbeddingGradientRows& args, Stream stream) {
  const bool wide = is_wide(args.d_out) && is_wide(args.d_weight) && args.width % 8 == 0;
  launch("embedding_backward", wide ? embedding_gradient_kernel<8> : embedding_gradient_kernel<1>,
         Grid(args.tokens), kGradientThreads, stream, args);
}

VIADUCT_KERNEL_FILE(embedding)

}  // namespace viaduct::cuda
