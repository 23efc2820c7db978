// Attention's forward (Dao 2023, arXiv 2307.08691): a block has some rows of a key-value head and
// loops over the keys that they see, with a running softmax. While one tile of keys and values is
// used the next is copied. Of codes, probabilities are rounded to E4M3 (ops/attention.h).

#include "ops/cuda/kernels/attention_rounding.cuh"
#include "ops/cuda/kernels/attention_tile.cuh"

namespace viaduct::cuda {
namespace {

template <class T, int kD, int kDv>
struct ForwardMemory {
  using Shape = TileShape<T, kD>;
  using Element = TileElement<T>;
  Tile<Element, Shape::kOwn, kD> q;
  struct Stage {
    Tile<Element, Shape::kOther, kD> k;
    Tile<Element, Shape::kOther, kDv> v;
  } stages[2];
  Exchange<Element, Shape::kWarps, Shape::kOther> exchange;
};

/// The two rows of a lane: which keys they see, and their running softmax.
struct Running {
  int first[2], end[2];
  float largest[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
  RowDraw draw[2];
};

/// The largest or the sum over the four lanes that share a row.
template <class Join>
__device__ float join_row(float value, Join join) {
  value = join(value, __shfl_xor_sync(kAllLanes, value, 1));
  return join(value, __shfl_xor_sync(kAllLanes, value, 2));
}

/// The logarithm to base 2 of what a row's exponentials are relative to: the largest of them, or,
/// where they are rounded, the smallest power of two that is at least as large, so that the order
/// of keys does not matter.
template <bool kRounds>
__device__ float offset_of_row(float largest) {
  return kRounds ? ceilf(largest * kLog2E) : largest * kLog2E;
}

/// Products of keys [begin, …) become exponentials relative to `offset_of_row` of the largest score
/// so far, rounded in units of 2^-8; what was summed before must be multiplied by `shrink`.
template <bool kRounds, int kKeys>
__device__ void softmax_tile(const AttentionProblemView& p, float scale, int begin, bool all_seen,
                             Part<kKeys>& scores, Running& rows, float (&shrink)[2]) {
  const float inverse_cap = p.softcap > 0 ? 1.0f / p.softcap : 0.0f;
  float most[2] = {rows.largest[0], rows.largest[1]};
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float s = scores[n][i] * scale;
      if (p.softcap > 0) s = p.softcap * tanhf(s * inverse_cap);
      const int key = begin + column_of(n, i);
      if (!all_seen && (key < rows.first[i / 2] || key >= rows.end[i / 2])) s = -INFINITY;
      scores[n][i] = s;
      most[i / 2] = fmaxf(most[i / 2], s);
    }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    most[half] = join_row(most[half], [](float a, float b) { return fmaxf(a, b); });
    // While a row has seen no key, exponentials are relative to a finite number: e^−inf = 0.
    const float base = fmaxf(most[half], -1e38f), offset = offset_of_row<kRounds>(base);
    shrink[half] = kRounds ? exp2f(offset_of_row<true>(rows.largest[half]) - offset)
                           : exp2f((rows.largest[half] - base) * kLog2E);
    rows.largest[half] = most[half];
    float total = 0;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[n][i] = exp2f(fmaf(scores[n][i], kLog2E, -offset));
        if constexpr (kRounds) scores[n][i] = rounded_to_e4m3(scores[n][i] * kProbabilityUnits);
        total += scores[n][i];
      }
    rows.total[half] = fmaf(rows.total[half], shrink[half], total);
  }
}

/// Blocks that a multiprocessor of sm_80 has memory for.
template <class T, int kD, int kDv>
inline constexpr int kBlocks = 164 * 1024 / (sizeof(ForwardMemory<T, kD, kDv>) + 1024);

template <class T, int kD, int kDv>
__global__ void __launch_bounds__(TileShape<T, kD>::kThreads, kBlocks<T, kD, kDv>)
    forward_kernel(AttentionForwardView args) {
  using Memory = ForwardMemory<T, kD, kDv>;
  using Shape = TileShape<T, kD>;
  using Element = TileElement<T>;
  static_assert(sizeof(Memory) <= kForwardLimit<kD>);
  constexpr int kThreads = Shape::kThreads, kKeys = Shape::kOther;
  const AttentionProblemView& p = args.problem;
  auto& memory = *dynamic_shared<Memory>();
  AttentionBlock block;
  // Later rows see more keys: they begin first.
  const auto index = static_cast<int>(gridDim.x - 1 - blockIdx.x);
  if (!find_block(p, p.q_offsets, p.group, Shape::kOwn, index, block)) return;
  const auto kv_head = static_cast<int>(blockIdx.y);
  const int row_count = block.queries * p.group, warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const int last_row = static_cast<int>(smaller(row_count, block.begin + Shape::kOwn)) - 1;
  const int first_query = block.begin / p.group, last_query = last_row / p.group;
  // The keys that any row sees, and those that all see.
  const int begin_key = block.first_seen(p, first_query), end_key = block.end_seen(p, last_query);
  const int all_begin = block.first_seen(p, last_query), all_end = block.end_seen(p, first_query);

  const float scale = kCodes<T> ? p.scale * p.codes.scales[0] * p.codes.scales[1] : p.scale;

  Running rows;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto row =
        static_cast<int>(smaller(block.begin + warp_row + row_of(2 * half), row_count - 1));
    rows.first[half] = block.first_seen(p, row / p.group);
    rows.end[half] = block.end_seen(p, row / p.group);
    if (p.dropout) rows.draw[half] = draw_of_row(p, block, kv_head, row);
  }
  const auto fill = [&](int stage, int begin) {
    if (begin < end_key) {
      auto& tiles = memory.stages[stage];
      fill_keys<T, kThreads>(tiles.k, p, block, p.k, p.width, kv_head, begin);
      fill_keys<T, kThreads>(tiles.v, p, block, p.v, p.value_width, kv_head, begin);
    }
    commit_copies();
  };
  const int first_tile = begin_key / kKeys * kKeys;
  fill_rows<T, kThreads>(memory.q, p, block, p.q, p.width, kv_head, block.begin);
  fill(0, first_tile);
  Part<kDv> out = {};
  int stage = 0;
  for (int begin = first_tile; begin < end_key; begin += kKeys, stage ^= 1) {
    wait_for_copies<0>();
    __syncthreads();  // this tile has arrived, and no thread reads the other one any more
    fill(stage ^ 1, begin + kKeys);
    const auto& tiles = memory.stages[stage];
    Part<kKeys> scores;
    multiply(scores, memory.q, warp_row, tiles.k, p.width);
    float shrink[2];
    softmax_tile<kCodes<T>, kKeys>(p, scale, begin, begin >= all_begin && begin + kKeys <= all_end,
                                   scores, rows, shrink);
#pragma unroll
    for (int n = 0; n < kDv / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) out[n][i] *= shrink[i / 2];
    if (p.dropout) {
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          scores[n][i] *= kept<T>(factor_of(p, block, rows.draw[i / 2], begin + column_of(n, i)));
    }
    add_product<Element, kDv>(out, scores, tiles.v, 0, p.value_width, memory.exchange);
  }
  wait_for_copies<0>();

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float total = join_row(rows.total[half], [](float a, float b) { return a + b; });
    const int row = block.begin + warp_row + row_of(2 * half);
    if (row >= row_count) continue;
    const int64_t query = block.first_query + row / p.group;
    const int64_t head = int64_t{kv_head} * p.group + row % p.group;
    // Not "total > 0": a NaN must propagate.
    float inverse = total == 0 ? 0.0f : 1.0f / total;
    float lse = total == 0 ? -INFINITY : rows.largest[half] + logf(total);
    if constexpr (kCodes<T>) {
      inverse *= p.codes.scales[2] * (p.dropout ? p.dropout_factor : 1.0f);
      if (total != 0)
        lse = offset_of_row<true>(rows.largest[half]) * kLn2 + logf(total / kProbabilityUnits);
    }
    const int64_t out_row = query * args.out.token + head * args.out.head;
#pragma unroll
    for (int n = 0; n < kDv / 8; ++n)
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        const int column = column_of(n, i);
        if (column >= p.value_width) continue;
        const float value[1] = {out[n][i] * inverse};
        if constexpr (kCodes<T>) {
          store(args.out.data, args.out_format, out_row + column, value);
        } else {
          static_cast<T*>(args.out.data)[out_row + column] = narrowed<T>(value[0]);
        }
      }
    if (lane_of() % 4 == 0) p.lse[head * p.queries + query] = lse;
  }
}

}  // namespace

void attention_forward(const AttentionForwardView& args, Stream stream) {
  const AttentionProblemView& p = args.problem;
  with_attention_kernel(p, [&](auto element, auto width, auto value_width) {
    using T = decltype(element);
    constexpr int kD = decltype(width)::value, kDv = decltype(value_width)::value;
    using Shape = TileShape<T, kD>;
    const int64_t blocks = block_bound(p.queries, p.group, Shape::kOwn, p.documents);
    launch("attention_forward", forward_kernel<T, kD, kDv>, Grid(blocks, p.kv_heads),
           Block(Shape::kThreads, sizeof(ForwardMemory<T, kD, kDv>)), stream, args);
  });
}

VIADUCT_KERNEL_FILE(attention_forward)

}  // namespace viaduct::cuda
