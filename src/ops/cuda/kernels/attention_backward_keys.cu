// Attention's backward over rows: a block has some keys of a key-value head, and adds up dk and dv
// over the rows that see them. Scores are made with keys as rows of the product, so that they are
// the left operand of the products that give dk and dv.

#include "ops/cuda/kernels/attention_backward.cuh"

namespace viaduct::cuda {
namespace {

/// Rows of a tile: 192 columns of dk and 128 of dv leave registers for the scores of 16.
template <class T, int kD>
inline constexpr int kTileRows = kD == 192 ? 16 : TileShape<T, kD>::kOther;

template <class T, int kD, int kDv>
struct KeysMemory {
  using Shape = TileShape<T, kD>;
  using Element = TileElement<T>;
  static constexpr int kRows = kTileRows<T, kD>;
  Tile<Element, Shape::kOwn, kD> k;
  Tile<Element, Shape::kOwn, kDv> v;
  struct Stage {
    Tile<Element, kRows, kD> q;
    Tile<Element, kRows, kDv> d_out;
    BackwardRow rows[kRows];
  } stages[2];
  Exchange<Element, Shape::kWarps, kRows> exchange;
};

template <class T, int kD, int kDv, int kParts>
__global__ void __launch_bounds__(TileShape<T, kD>::kThreads)
    backward_keys_kernel(AttentionBackwardView args) {
  using Memory = KeysMemory<T, kD, kDv>;
  using Shape = TileShape<T, kD>;
  using Element = TileElement<T>;
  static_assert(sizeof(Memory) <= kBackwardLimit<T, kD>);
  constexpr int kThreads = Shape::kThreads, kRows = Memory::kRows;
  constexpr int kColumns = kD / kParts, kValueColumns = kDv / kParts;
  const AttentionProblemView& p = args.problem;
  auto& memory = *dynamic_shared<Memory>();
  AttentionBlock block;
  // Earlier keys are seen by more rows: they begin first.
  if (!find_block(p, p.kv_offsets, 1, Shape::kOwn, static_cast<int>(blockIdx.x), block)) return;
  const auto kv_head = static_cast<int>(blockIdx.y) / kParts;
  const int part = static_cast<int>(blockIdx.y) % kParts;
  const int column = part * kColumns, value_column = part * kValueColumns;
  const BackwardScales scales = backward_scales<T>(args);
  const int warp_key = static_cast<int>(threadIdx.x) / 32 * 16;
  const auto end_key = static_cast<int>(smaller(block.keys, block.begin + Shape::kOwn));
  // The rows that see any of the keys.
  const int begin_row = block.first_seeing(p, block.begin) * p.group;
  const int end_row = block.end_seeing(p, end_key) * p.group;

  const auto fill = [&](int stage, int begin) {
    if (begin < end_row) {
      auto& tiles = memory.stages[stage];
      fill_rows<T, kThreads>(tiles.q, p, block, p.q, p.width, kv_head, begin);
      fill_rows<T, kThreads>(tiles.d_out, p, block, args.d_out, p.value_width, kv_head, begin,
                             p.codes.d_out_e5m2);
      if (threadIdx.x < kRows)
        tiles.rows[threadIdx.x] =
            backward_row(args, block, kv_head, begin + static_cast<int>(threadIdx.x));
    }
    commit_copies();
  };
  const int first_tile = begin_row / kRows * kRows;
  fill_keys<T, kThreads>(memory.k, p, block, p.k, p.width, kv_head, block.begin);
  fill_keys<T, kThreads>(memory.v, p, block, p.v, p.value_width, kv_head, block.begin);
  fill(0, first_tile);
  Part<kColumns> dk = {};
  Part<kValueColumns> dv = {};
  int stage = 0;
  for (int begin = first_tile; begin < end_row; begin += kRows, stage ^= 1) {
    wait_for_copies<0>();
    __syncthreads();  // this tile has arrived, and no thread reads the other one any more
    fill(stage ^ 1, begin + kRows);
    const auto& tiles = memory.stages[stage];
    Part<kRows> scores, gradients;
    multiply(scores, memory.k, warp_key, tiles.q, p.width);
    multiply(gradients, memory.v, warp_key, tiles.d_out, p.value_width);
    const int first_query = begin / p.group;
    const int last_query =
        static_cast<int>(smaller(begin + kRows, block.queries * p.group) - 1) / p.group;
    const bool all_seen =
        block.begin >= block.first_seen(p, last_query) && end_key <= block.end_seen(p, first_query);
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        backward_element<T>(p, scales, block, tiles.rows[column_of(n, i)],
                            block.begin + warp_key + row_of(i), all_seen, scores[n][i],
                            gradients[n][i]);
    add_product<Element, kValueColumns>(dv, scores, tiles.d_out, value_column, p.value_width,
                                        memory.exchange);
    add_product<Element, kColumns>(dk, gradients, tiles.q, column, p.width, memory.exchange);
  }
  wait_for_copies<0>();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int key = block.begin + warp_key + row_of(2 * half);
    if (key >= block.keys) continue;
    const int64_t at = (block.first_key + key) * p.kv_heads + kv_head;
    add_row<kColumns>(args.dk + at * p.width, half, dk, column, p.width, scales.dk);
    add_row<kValueColumns>(args.dv + at * p.value_width, half, dv, value_column, p.value_width,
                           scales.dv);
  }
}

}  // namespace

void attention_backward_keys(const AttentionBackwardView& args, Stream stream) {
  const AttentionProblemView& p = args.problem;
  with_attention_kernel(p, [&](auto element, auto width, auto value_width) {
    using T = decltype(element);
    constexpr int kD = decltype(width)::value, kDv = decltype(value_width)::value;
    constexpr int kParts = head_widths_for(kD, kDv)->parts;
    using Shape = TileShape<T, kD>;
    const int64_t blocks = block_bound(p.keys, 1, Shape::kOwn, p.documents);
    launch("attention_backward_keys", backward_keys_kernel<T, kD, kDv, kParts>,
           Grid(blocks, int64_t{p.kv_heads} * kParts),
           Block(Shape::kThreads, sizeof(KeysMemory<T, kD, kDv>)), stream, args);
  });
}

VIADUCT_KERNEL_FILE(attention_backward_keys)

}  // namespace viaduct::cuda
