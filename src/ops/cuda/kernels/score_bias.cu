// The bias of a score matrix by relative position, and its gradient: a block sums the elements of a
// bucket and a head over part of the queries, a second launch adds the parts.

#include "ops/cuda/kernels/score_bias.h"

#include "ops/cuda/kernels/score_row.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kSumThreads = 128;
// Beyond every distance.
constexpr int64_t kFarthest = int64_t{1} << 40;

__device__ int64_t heads_of(const AttentionProblemView& p) {
  return int64_t{p.kv_heads} * p.group;
}

/// Where the query of a row stands among the keys of its document.
__device__ int64_t place_of(const ScoreRow& row) {
  return row.query - row.block.first_query + row.block.diagonal;
}

/// Of a key `distance` places behind the query.
__device__ int bucket_of(const BucketsView& buckets, int64_t distance) {
  const bool behind = buckets.both && distance > 0;
  const int first = behind ? buckets.own : 0;
  const int64_t far = behind ? distance : distance < 0 ? -distance : 0;
  if (far < buckets.exact) return first + static_cast<int>(far);
  int low = 0, high = buckets.own - buckets.exact - 1;  // borders below `low` are passed
  while (low < high) {
    const int middle = (low + high) / 2;
    if (buckets.borders[middle] <= far) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return first + buckets.exact + low;
}

/// The least distance of bucket `number` of a direction.
__device__ int64_t begin_of(const BucketsView& buckets, int number) {
  if (number >= buckets.own) return kFarthest;
  return number <= buckets.exact ? number : buckets.borders[number - buckets.exact - 1];
}

template <int kThreads>
__global__ void __launch_bounds__(kRowThreads) score_bias_kernel(ScoreBiasView args) {
  using Group = RowGroup<kThreads>;
  ScoreRow row;
  if (!find_row(args.problem, Group::row(), row)) return;
  const int64_t begin = row.at * args.row, place = place_of(row), heads = heads_of(args.problem);
  for_keys<Group>(row, [&](int j) {
    const int64_t bucket = bucket_of(args.buckets, j - place);
    args.matrix[begin + j] += matrix_element(args.table, args.format, bucket * heads + row.head);
  });
}

/// Block (bucket + buckets · head, part).
__global__ void __launch_bounds__(kSumThreads) score_bias_sums_kernel(ScoreBiasSums args) {
  const AttentionProblemView& p = args.problem;
  const int all = args.buckets.both ? 2 * args.buckets.own : args.buckets.own;
  const int bucket = static_cast<int>(blockIdx.x) % all;
  const int64_t head = static_cast<int>(blockIdx.x) / all, part = blockIdx.y;
  const bool behind = bucket >= args.buckets.own;
  const int number = behind ? bucket - args.buckets.own : bucket;
  // Distances [low, high] have the bucket.
  const int64_t near = begin_of(args.buckets, number), far = begin_of(args.buckets, number + 1) - 1;
  const int64_t low = behind ? larger(near, 1) : -far;
  const int64_t high = behind ? far : number == 0 && !args.buckets.both ? kFarthest : -near;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes,
            lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int64_t begin = part * p.queries / args.parts, end = (part + 1) * p.queries / args.parts;
  double sum = 0;
  for (int64_t query = begin + warp; query < end; query += kSumThreads / kWarpLanes) {
    ScoreRow row;
    find_row(p, head * p.queries + query, row);
    const int64_t place = place_of(row);
    const int64_t last = smaller(int64_t{row.keys} - 1, place + high);
    for (int64_t j = larger(0, place + low) + lane; j <= last; j += kWarpLanes)
      sum += static_cast<double>(args.gradient[row.at * args.row + j]);
  }
  sum = join_block<kSumThreads>(sum, SumOf{});
  if (threadIdx.x == 0) args.partial[(part * heads_of(p) + head) * all + bucket] = sum;
}

__global__ void __launch_bounds__(kSumThreads) score_bias_parts_kernel(ScoreBiasSums args) {
  const int64_t heads = heads_of(args.problem);
  const int64_t all = args.buckets.both ? 2 * args.buckets.own : args.buckets.own;
  const int64_t at = int64_t{blockIdx.x} * kSumThreads + threadIdx.x;  // of [N, buckets]
  if (at >= heads * all) return;
  double sum = 0;
  for (int64_t part = 0; part < args.parts; ++part) sum += args.partial[part * heads * all + at];
  args.d_table[at % all * heads + at / all] += static_cast<float>(sum);
}

}  // namespace

void score_bias(const ScoreBiasView& args, Stream stream) {
  for_matrix(args.problem, args.row, [&](auto threads, Grid grid) {
    launch("score_bias", score_bias_kernel<decltype(threads)::value>, grid, kRowThreads, stream,
           args);
  });
}

void score_bias_backward(const ScoreBiasSums& args, Stream stream) {
  const int64_t sums = int64_t{args.problem.kv_heads} * args.problem.group *
                       (args.buckets.both ? 2 : 1) * args.buckets.own;
  launch("score_bias_sums", score_bias_sums_kernel, Grid(sums, args.parts), kSumThreads, stream,
         args);
  launch("score_bias_parts", score_bias_parts_kernel, Grid(blocks_for(sums, kSumThreads)),
         kSumThreads, stream, args);
}

VIADUCT_KERNEL_FILE(score_bias)

}  // namespace viaduct::cuda
