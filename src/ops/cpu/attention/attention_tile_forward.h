#pragma once
// Part of the attention kernels on tiles: the forward over one block of queries.

#include <math.h>
#include <string.h>

#include "ops/cpu/attention/attention_bias_rows.h"
#include "ops/cpu/attention/attention_tile_softmax.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// Adds the bias to the scores of the rows [row, row + rows) of a block with room for `columns`
/// keys; `line`: that of the block, whose last query and first key are its first entry.
void add_bias(const float* line, int64_t last_row, int64_t row, int64_t rows, int64_t columns,
              float* scores) {
  for (int64_t r = 0; r < rows; ++r)
    add_vectors(line + last_row - row - r, columns, scores + r * kScoreStride);
}

/// Rescales the sums over earlier keys of the rows [row, row + rows), after a larger score was
/// found.
void shrink_out(const ForwardScratch& s, int64_t row, int64_t rows) {
  for (int64_t r = row; r < row + rows; ++r) {
    if (s.shrink[r] == 1.0f) continue;
    float* out = s.out + r * s.out_stride;
    const Vec shrink = set1(s.shrink[r]);
    for (int64_t i = 0; i < s.out_stride; i += kLanes) store(out + i, mul(load(out + i), shrink));
  }
}

/// Rows are (query, head of the group) pairs, query by query.
void finish_rows(const AttentionHead& head, int64_t query, int64_t rows, bool seen,
                 const ForwardScratch& s) {
  int64_t i = query / head.group, member = query % head.group;
  for (int64_t r = 0; r < rows; ++r) {
    const float total = seen ? sum(load(s.totals + r * kLanes)) : 0.0f;
    // Not "total > 0": a NaN must propagate.
    const bool nothing = total == 0;
    const Vec inverse = set1(nothing ? 0.0f : 1.0f / total);
    const float* from = s.out + r * s.out_stride;
    auto* to = static_cast<bfloat16*>(head.out) + i * head.out_token + member * head.out_head;
    for (int64_t at = 0; at < head.value_width; at += kLanes) {
      const Vec value = nothing ? zero() : mul(load(from + at), inverse);
      if (at + kLanes <= head.value_width) {
        store(to + at, value);
      } else {
        store(to + at, value, first(head.value_width - at));
      }
    }
    head.lse[member * head.lse_head + i] = nothing ? kNothing : s.largest[r] * kLn2 + ::logf(total);
    if (++member == head.group) ++i, member = 0;
  }
}

/// out of a block of `rows` += probabilities · values of the keys that each strip sees from `key`
/// on; out = where it has seen none before.
void add_values(const TileKernels& tiles, const TileForward& problem, const ForwardScratch& s,
                int64_t rows, int64_t key, const SeenKeys* seen, bool* later) {
  TileProduct p{.rows = 0, .columns = problem.head.value_width, .steps = 0};
  p.a_strip = kProbabilityStrip;
  p.b_strip = problem.values.strip;
  p.c_stride = s.out_stride;
  const int64_t strips = tile_strips(rows);
  for (int64_t strip = 0, next; strip < strips; strip = next) {
    // Neighbours with the same keys are one product.
    const SeenKeys& keys = seen[strip];
    next = strip + 1;
    while (next < strips && seen[next] == keys && later[next] == later[strip]) ++next;
    if (keys.nothing()) continue;
    const int64_t step = keys.begin / kTileDepth;
    p.rows = smaller(rows, next * kTileRows) - strip * kTileRows;
    p.steps = tile_steps(keys.end - keys.begin);
    p.last_units = last_tile_units<bfloat16>(keys.end - keys.begin);
    p.a = s.probabilities + strip * kProbabilityStrip + step * kTileElements;
    p.b = problem.values.data + (key / kTileDepth + step) * kTileElements;
    p.c = s.out + strip * kTileRows * s.out_stride;
    p.accumulate = later[strip];
    tiles.product(p);
    for (int64_t n = strip; n < next; ++n) later[n] = true;
  }
}

}  // namespace

void attention_forward_block(const TileKernels& tiles, const TileForward& problem, int64_t query,
                             char* scratch) {
  const AttentionHead& head = problem.head;
  const int64_t rows = smaller(kTileQueries, head.queries - query), last = query + rows - 1;
  ForwardScratch s(head, scratch);
  tiles.pack_a({static_cast<const bfloat16*>(head.q) + query * head.q_token, DType::bf16,
                head.q_token, false, rows, head.width},
               s.q, s.q_strip);
  fetch_rows(static_cast<const bfloat16*>(head.out), head.out_token, query, query + rows,
             head.value_width);
  // Zero the rows of the last strip beyond the last query.
  if (rows % kTileRows != 0) memset(s.probabilities, 0, kTileQueries * kTileKeys * 2);
  const int64_t begin = first_key(head, query) / kTileDepth * kTileDepth, end = end_key(head, last);
  TileProduct scores{.rows = 0, .columns = 0, .steps = tile_steps(head.width)};
  scores.b_strip = problem.keys.strip;
  scores.c_stride = kScoreStride;
  alignas(64) uint32_t positions[kTileKeys];
  float bias[kTileQueries + kTileKeys];
  // The keys that each strip sees in a block of keys, and whether it has seen some before.
  SeenKeys seen[kTileQueries / kTileRows];
  bool later[kTileQueries / kTileRows] = {};
  {
    const TileScope scope(tiles);
    for (int64_t key = begin; key < end; key += kTileKeys) {
      const int64_t count = smaller(kTileKeys, end - key);
      for (int64_t j = 0; head.dropout && j < tile_room(count); ++j)
        positions[j] = position_of(head, smaller(key + j, head.keys - 1));
      if (head.bias != nullptr) {
        // Scores are not scaled yet.
        bias_line(head, key - last - head.diagonal, 1, rows - 1 + tile_room(count),
                  1.0f / head.scale, bias);
      }
      for (int64_t row = 0; row < rows; row += kTileScoreRows) {
        const int64_t strip = row / kTileRows;
        scores.rows = smaller(kTileScoreRows, rows - row);
        seen[strip] = SeenKeys(head, query + row, scores.rows, key, count);
        const SeenKeys& keys = seen[strip];
        if (keys.nothing()) continue;
        scores.columns = keys.end - keys.begin;
        scores.a = s.q + strip * s.q_strip;
        scores.b = problem.keys.data + (key + keys.begin) / kTileColumns * problem.keys.strip;
        scores.c = s.scores + keys.begin;
        tiles.product(scores);
        if (head.bias != nullptr)
          add_bias(bias, rows - 1, row, scores.rows, tile_room(keys.end), s.scores);
        const bool changed =
            softmax_for(head, keys.masked)(head, query, row, scores.rows, key, keys, positions, s);
        if (changed && later[strip]) shrink_out(s, row, scores.rows);
      }
      add_values(tiles, problem, s, rows, key, seen, later);
    }
  }
  finish_rows(head, query, rows, begin < end, s);
}

}  // namespace viaduct::cpu::VIADUCT_ISA
