// Attention's backward over keys: a block has some rows of a key-value head, and adds up dq over
// the keys that they see.

#include "ops/cuda/kernels/attention_backward.cuh"

namespace viaduct::cuda {
namespace {

template <class T, int kD, int kDv>
struct QueriesMemory {
  using Shape = TileShape<T, kD>;
  using Element = TileElement<T>;
  Tile<Element, Shape::kOwn, kD> q;
  Tile<Element, Shape::kOwn, kDv> d_out;
  struct Stage {
    Tile<Element, Shape::kOther, kD> k;
    Tile<Element, Shape::kOther, kDv> v;
  } stages[2];
  Exchange<Element, Shape::kWarps, Shape::kOther> exchange;
};

template <class T, int kD, int kDv>
__global__ void __launch_bounds__(TileShape<T, kD>::kThreads)
    backward_queries_kernel(AttentionBackwardView args) {
  using Memory = QueriesMemory<T, kD, kDv>;
  using Shape = TileShape<T, kD>;
  static_assert(sizeof(Memory) <= kBackwardLimit<T, kD>);
  constexpr int kThreads = Shape::kThreads, kKeys = Shape::kOther;
  const AttentionProblemView& p = args.problem;
  auto& memory = *dynamic_shared<Memory>();
  AttentionBlock block;
  const auto index = static_cast<int>(gridDim.x - 1 - blockIdx.x);
  if (!find_block(p, p.q_offsets, p.group, Shape::kOwn, index, block)) return;
  const auto kv_head = static_cast<int>(blockIdx.y);
  const int row_count = block.queries * p.group, warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const int last_row = static_cast<int>(smaller(row_count, block.begin + Shape::kOwn)) - 1;
  const int first_query = block.begin / p.group, last_query = last_row / p.group;
  const int begin_key = block.first_seen(p, first_query), end_key = block.end_seen(p, last_query);
  const int all_begin = block.first_seen(p, last_query), all_end = block.end_seen(p, first_query);

  const BackwardScales scales = backward_scales<T>(args);

  const int first_tile = begin_key / kKeys * kKeys;
  const auto fill = [&](int stage, int begin) {
    if (begin < end_key) {
      auto& tiles = memory.stages[stage];
      fill_keys<T, kThreads>(tiles.k, p, block, p.k, p.width, kv_head, begin);
      fill_keys<T, kThreads>(tiles.v, p, block, p.v, p.value_width, kv_head, begin);
    }
    commit_copies();
  };
  fill_rows<T, kThreads>(memory.q, p, block, p.q, p.width, kv_head, block.begin);
  fill_rows<T, kThreads>(memory.d_out, p, block, args.d_out, p.value_width, kv_head, block.begin,
                         p.codes.d_out_e5m2);
  fill(0, first_tile);
  const BackwardRow rows[2] = {
      backward_row(args, block, kv_head, block.begin + warp_row + row_of(0)),
      backward_row(args, block, kv_head, block.begin + warp_row + row_of(2))};
  Part<kD> dq = {};
  int stage = 0;
  for (int begin = first_tile; begin < end_key; begin += kKeys, stage ^= 1) {
    wait_for_copies<0>();
    __syncthreads();  // this tile has arrived, and no thread reads the other one any more
    fill(stage ^ 1, begin + kKeys);
    const auto& tiles = memory.stages[stage];
    Part<kKeys> scores, gradients;
    multiply(scores, memory.q, warp_row, tiles.k, p.width);
    multiply(gradients, memory.d_out, warp_row, tiles.v, p.value_width);
    const bool all_seen = begin >= all_begin && begin + kKeys <= all_end;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        backward_element<T>(p, scales, block, rows[i / 2], begin + column_of(n, i), all_seen,
                            scores[n][i], gradients[n][i]);
    add_product<TileElement<T>, kD>(dq, gradients, tiles.k, 0, p.width, memory.exchange);
  }
  wait_for_copies<0>();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = block.begin + warp_row + row_of(2 * half);
    if (row >= row_count) continue;
    const int64_t heads = int64_t{p.kv_heads} * p.group;
    const int64_t at =
        (block.first_query + row / p.group) * heads + int64_t{kv_head} * p.group + row % p.group;
    add_row<kD>(args.dq + at * p.width, half, dq, 0, p.width, scales.dq);
  }
}

}  // namespace

void attention_backward_queries(const AttentionBackwardView& args, Stream stream) {
  const AttentionProblemView& p = args.problem;
  with_attention_kernel(p, [&](auto element, auto width, auto value_width) {
    using T = decltype(element);
    constexpr int kD = decltype(width)::value, kDv = decltype(value_width)::value;
    using Shape = TileShape<T, kD>;
    const int64_t blocks = block_bound(p.queries, p.group, Shape::kOwn, p.documents);
    launch("attention_backward_queries", backward_queries_kernel<T, kD, kDv>,
           Grid(blocks, p.kv_heads), Block(Shape::kThreads, sizeof(QueriesMemory<T, kD, kDv>)),
           stream, args);
  });
}

VIADUCT_KERNEL_FILE(attention_backward_queries)

}  // namespace viaduct::cuda
