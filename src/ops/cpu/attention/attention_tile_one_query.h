#pragma once
// Part of the attention kernels on tiles: the forward of one query of a group of heads. Its rows
// are the heads; a run of keys is packed to tiles in cache, once for all of them.

#include "ops/cpu/attention/attention_tile_forward.h"

namespace viaduct::cpu::VIADUCT_ISA {
void attention_one_query(const TileKernels& tiles, const AttentionHead& head, char* scratch) {
  ForwardScratch s(head, scratch);
  const int64_t rows = head.group;
  const auto* k = static_cast<const bfloat16*>(head.k);
  const auto* v = static_cast<const bfloat16*>(head.v);
  auto* keys =
      reinterpret_cast<bfloat16*>(scratch + tile_forward_scratch(head.width, head.value_width));
  bfloat16* values = keys + kTileKeys * tile_room(head.width);
  tiles.pack_a({head.q, DType::bf16, head.q_head, false, rows, head.width}, s.q, s.q_strip);
  // Zero the rows beyond the last head.
  memset(s.probabilities, 0, kProbabilityStrip * 2);
  const int64_t begin = first_key(head, 0) / kTileDepth * kTileDepth, end = end_key(head, 0);
  TileProduct scores{.rows = rows, .columns = 0, .steps = tile_steps(head.width)};
  scores.a = s.q, scores.a_strip = s.q_strip;
  scores.b = keys, scores.b_strip = tile_room(head.width) * kTileColumns;
  scores.c = s.scores, scores.c_stride = kScoreStride;
  TileProduct sums{.rows = rows, .columns = head.value_width, .steps = 0};
  sums.a = s.probabilities, sums.a_strip = kProbabilityStrip;
  sums.b = values, sums.b_strip = kTileKeys * kTileColumns + kTileValueGap;
  sums.c = s.out, sums.c_stride = s.out_stride;
  const TileScope scope(tiles);
  for (int64_t key = begin; key < end; key += kTileKeys) {
    const int64_t count = smaller(kTileKeys, end - key);
    fetch_rows(v, head.v_token, key, key + count, head.value_width);
    tiles.pack_b({k + key * head.k_token, DType::bf16, head.k_token, false, count, head.width},
                 keys, scores.b_strip);
    scores.columns = count;
    tiles.product(scores);
    const SeenKeys seen(head, 0, rows, key, count);
    const bool changed =
        softmax_for(head, seen.masked)(head, 0, 0, rows, key, seen, nullptr, s) && key > begin;
    if (changed) shrink_out(s, 0, rows);
    fetch_rows(k, head.k_token, key + count, smaller(end, key + 2 * kTileKeys), head.width);
    tiles.pack_b({v + key * head.v_token, DType::bf16, head.v_token, true, head.value_width, count},
                 values, sums.b_strip);
    sums.steps = tile_steps(count);
    sums.accumulate = key > begin;
    tiles.product(sums);
  }
  finish_rows(head, 0, rows, begin < end, s);
}

}  // namespace viaduct::cpu::VIADUCT_ISA
