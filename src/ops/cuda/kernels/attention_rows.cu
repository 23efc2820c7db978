// The row-wise parts of attention: a warp for each head of a token.

#include "ops/cuda/kernels/attention_rows.h"
#include "ops/cuda/kernels/float8.cuh"
#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {
namespace {

using Group = RowGroup<kWarpLanes>;
constexpr int kRowsOfBlock = kRowThreads / kWarpLanes;

/// Where a row's value per query is.
__device__ int64_t query_of(int64_t row, int64_t tokens, int64_t heads) {
  return row % heads * tokens + row / heads;
}

/// Elements [at, at + N) of a row, or the numbers of their codes.
template <int N>
__device__ void load(const CodedRows& coded, int64_t row, int64_t at, float (&to)[N]) {
  const Rows& rows = coded.rows;
  if (coded.scale == nullptr) return load(address_of(rows, row), rows.format, at, to);
  const auto* from = static_cast<const uint8_t*>(rows.data) + offset_of(rows, row) + at;
  const auto codes = *reinterpret_cast<const Run<uint8_t, N>*>(from);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = decode_float8(codes.values[i], coded.e5m2);
}

__device__ float scale_of(const CodedRows& coded) {
  return coded.scale != nullptr ? *coded.scale : 1.0f;
}

template <int kRun>
__global__ void __launch_bounds__(kRowThreads) delta_kernel(AttentionDeltaRows args) {
  const int64_t row = Group::row();
  if (row >= args.tokens * args.heads) return;
  float sum = 0;
  for_row<kRun>(Group::thread(), kWarpLanes, args.width, [&](int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    float a[n], b[n];
    load(args.out, row, i, a);
    load(args.d_out, row, i, b);
#pragma unroll
    for (int j = 0; j < n; ++j) sum = fmaf(a[j], b[j], sum);
  });
  sum = Group::join(sum, SumOf{}) * (scale_of(args.out) * scale_of(args.d_out));
  if (Group::thread() == 0) args.delta[query_of(row, args.tokens, args.heads)] = sum;
}

template <int kRun>
__global__ void __launch_bounds__(kRowThreads) merge_kernel(AttentionMergeRows args) {
  const int64_t row = Group::row();
  if (row >= args.tokens * args.heads) return;
  const int64_t at = query_of(row, args.tokens, args.heads);
  const float own = args.lse[at], other = args.other_lse[at];
  const float largest = own < other ? other : own;
  if (largest == -INFINITY) return;
  const float a = expf(own - largest), b = expf(other - largest);
  const float keep = a / (a + b), take = b / (a + b);
  void* const out = address_of(args.out, row);
  const void* const add = address_of(args.other, row);
  for_row<kRun>(Group::thread(), kWarpLanes, args.width, [&](int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    float x[n], y[n];
    load(out, args.out.format, i, x);
    load(add, args.other.format, i, y);
#pragma unroll
    for (int j = 0; j < n; ++j) x[j] = fmaf(y[j], take, x[j] * keep);
    store(out, args.out.format, i, x);
  });
  __syncwarp();  // all lanes have read it
  if (Group::thread() == 0) args.lse[at] = largest + logf(a + b);
}

template <int kRun>
__global__ void __launch_bounds__(kRowThreads) sink_kernel(AttentionSinkRows args) {
  const int64_t row = Group::row();
  if (row >= args.tokens * args.heads) return;
  float sink[1];
  load(args.sink, row % args.heads, sink);
  float* const lse = args.lse + query_of(row, args.tokens, args.heads);
  const float own = *lse, largest = own < sink[0] ? sink[0] : own;
  const float all = largest + logf(expf(own - largest) + expf(sink[0] - largest));
  const float factor = expf(own - all);
  void* const out = address_of(args.out, row);
  for_row<kRun>(Group::thread(), kWarpLanes, args.width, [&](int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    float x[n];
    load(out, args.out.format, i, x);
#pragma unroll
    for (int j = 0; j < n; ++j) x[j] *= factor;
    store(out, args.out.format, i, x);
  });
  __syncwarp();  // all lanes have read it
  if (Group::thread() == 0) *lse = all;
}

struct SinkTerms {
  double values[kRowThreads];
};

/// A block a head; the sum is made in the order of the tokens.
__global__ void __launch_bounds__(kRowThreads) sink_backward_kernel(AttentionSinkSums args) {
  auto& terms = shared<SinkTerms>();
  const int64_t head = blockIdx.x;
  float sink[1];
  load(args.sink, head, sink);
  const float *const lse = args.lse + head * args.tokens, *const delta =
                                                              args.delta + head * args.tokens;
  double sum = 0;
  for (int64_t begin = 0; begin < args.tokens; begin += kRowThreads) {
    const int64_t t = begin + threadIdx.x;
    if (t < args.tokens)
      terms.values[threadIdx.x] =
          static_cast<double>(expf(sink[0] - lse[t])) * static_cast<double>(delta[t]);
    __syncthreads();
    if (threadIdx.x == 0)
      for (int i = 0; i < kRowThreads && begin + i < args.tokens; ++i) sum += terms.values[i];
    __syncthreads();  // before the next terms are written
  }
  if (threadIdx.x == 0) args.d_sink[head] -= static_cast<float>(sum);
}

template <int kRun>
__global__ void __launch_bounds__(kRowThreads) repeat_heads_kernel(SharedHeads args) {
  for_elements<kRun>(args.tokens * args.heads, args.width, kRowThreads,
                     [&](int64_t row, int64_t i, auto count) {
                       constexpr int n = decltype(count)::value;
                       float x[n];
                       load(address_of(args.shared, row / args.heads), args.shared.format, i, x);
                       store(address_of(args.each, row), args.each.format, i, x);
                     });
}

template <int kRun>
__global__ void __launch_bounds__(kRowThreads) sum_heads_kernel(SharedHeads args) {
  for_elements<kRun>(
      args.tokens, args.width, kRowThreads, [&](int64_t token, int64_t i, auto count) {
        constexpr int n = decltype(count)::value;
        float sum[n] = {}, x[n];
        for (int64_t head = 0; head < args.heads; ++head) {
          load(address_of(args.each, token * args.heads + head), args.each.format, i, x);
#pragma unroll
          for (int j = 0; j < n; ++j) sum[j] += x[j];
        }
        store(address_of(args.shared, token), args.shared.format, i, sum);
      });
}

template <class Args>
Grid grid_of(const Args& args) {
  return Grid(blocks_for(args.tokens * args.heads, kRowsOfBlock));
}

}  // namespace

void attention_delta(const AttentionDeltaRows& args, Stream stream) {
  const bool wide = is_wide(args.out.rows) && is_wide(args.d_out.rows);
  launch("attention_delta", wide ? delta_kernel<8> : delta_kernel<1>, grid_of(args), kRowThreads,
         stream, args);
}

void attention_merge(const AttentionMergeRows& args, Stream stream) {
  const bool wide = is_wide(args.out) && is_wide(args.other);
  launch("attention_merge", wide ? merge_kernel<8> : merge_kernel<1>, grid_of(args), kRowThreads,
         stream, args);
}

void attention_sink(const AttentionSinkRows& args, Stream stream) {
  launch("attention_sink", is_wide(args.out) ? sink_kernel<8> : sink_kernel<1>, grid_of(args),
         kRowThreads, stream, args);
}

void attention_sink_backward(const AttentionSinkSums& args, Stream stream) {
  launch("attention_sink_backward", sink_backward_kernel, Grid(args.heads), kRowThreads, stream,
         args);
}

void repeat_heads(const SharedHeads& args, Stream stream) {
  const bool wide = is_wide(args.each) && is_wide(args.shared);
  launch("repeat_heads", wide ? repeat_heads_kernel<8> : repeat_heads_kernel<1>,
         grid_for_elements(args.tokens * args.heads, args.width, wide ? 8 : 1, kRowThreads),
         kRowThreads, stream, args);
}

void sum_heads(const SharedHeads& args, Stream stream) {
  const bool wide = is_wide(args.each) && is_wide(args.shared);
  launch("sum_heads", wide ? sum_heads_kernel<8> : sum_heads_kernel<1>,
         grid_for_elements(args.tokens, args.width, wide ? 8 : 1, kRowThreads), kRowThreads, stream,
         args);
}

VIADUCT_KERNEL_FILE(attention_rows)

}  // namespace viaduct::cuda
