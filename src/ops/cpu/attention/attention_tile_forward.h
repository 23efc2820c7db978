#pragma once
// Part of the attention kernels on tiles: the forward over one block of queries.
//
// Rows of scores are queries, so probabilities become A tiles by rounding only: 32 neighbouring
// keys are a row of a tile.

#include <math.h>
#include <string.h>

#include "ops/cpu/attention/attention_bias_rows.h"
#include "ops/cpu/attention/attention_tile_rows.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// The distance between rows of scores is not a power of two: else rows would share few cache sets.
constexpr int64_t kScoreStride = kTileKeys + 16;
constexpr int64_t kProbabilityStrip = kTileKeys * kTileRows;

/// Scratch of a block, and the running softmax of its rows in units of log 2.
struct ForwardScratch {
  bfloat16* q;              // A tiles
  float* scores;            // [kTileScoreRows][kScoreStride]
  bfloat16* probabilities;  // A tiles
  float* out;               // [kTileQueries][out_stride], not divided by the total
  float* totals;            // [kTileQueries][kLanes]
  int64_t q_strip, out_stride;
  alignas(64) float largest[kTileQueries], shrink[kTileQueries];

  ForwardScratch(const AttentionHead& head, char* scratch)
      : q_strip(tile_room(head.width) * kTileRows), out_stride(tile_room(head.value_width)) {
    q = reinterpret_cast<bfloat16*>(scratch);
    scores = reinterpret_cast<float*>(q + kTileQueries / kTileRows * q_strip);
    probabilities = reinterpret_cast<bfloat16*>(scores + kTileScoreRows * kScoreStride);
    out = reinterpret_cast<float*>(probabilities + kTileQueries * kTileKeys);
    totals = out + kTileQueries * out_stride;
    for (int64_t r = 0; r < kTileQueries; ++r) largest[r] = kNothing;
    for (int64_t i = 0; i < kTileQueries * kLanes; ++i) totals[i] = 0;
  }
};

/// One row's scores against the keys [begin, begin + room), of which it sees lanes [low, high).
struct ScoreLine {
  float* scores;
  int64_t room, low, high;  // room: whole pairs of vectors
};

/// The largest score of a row, in units of log 2; with a soft cap the row then holds these units.
template <bool kMasked, bool kCapped>
inline float largest_score(const ScoreLine& line, Vec unit, Vec cap_scale, Vec cap) {
  Vec most = set1(kNothing);
  for (int64_t j = 0; j < line.room; j += kLanes) {
    Vec s = load(line.scores + j);
    if constexpr (kCapped) {
      s = mul(cap, tanh(mul(s, cap_scale)));
      store(line.scores + j, s);
    } else {
      s = mul(s, unit);
    }
    if constexpr (kMasked)
      s = select(lanes_between(line.low - j, line.high - j), s, set1(kNothing));
    most = maximum(most, s);
  }
  return _mm512_reduce_max_ps(most);
}

/// Probabilities 2^(unit · score − base) of a row as a row of A tiles; returns their sum by lanes.
template <bool kMasked, bool kDropout>
inline Vec probabilities_of(const AttentionHead& head, const ScoreLine& line, Vec unit, Vec base,
                            uint64_t token, const uint32_t* positions, bfloat16* to) {
  Vec total = zero();
  const Words low = words(static_cast<uint32_t>(token));
  const Words high = words(static_cast<uint32_t>(token >> 32));
  for (int64_t j = 0; j < line.room; j += 2 * kLanes, to += kTileElements) {
    Vec p[2];
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const int64_t at = j + half * kLanes;
      p[half] = exp2(_mm512_fmsub_ps(load(line.scores + at), unit, base));
      if constexpr (kMasked)
        p[half] = select(lanes_between(line.low - at, line.high - at), p[half], zero());
      total = add(total, p[half]);
      if constexpr (kDropout)
        p[half] = mul(p[half], draw_factors(head, low, high, load_words(positions + at)));
    }
    _mm512_storeu_si512(to, narrow_both(p[0], p[1]));
  }
  return total;
}

/// Turns scores of the rows (query, head of the group) [row, row + rows) of a block, rows ≤
/// kTileScoreRows, against `count` keys from `begin` into probabilities in A tiles. Returns whether
/// a row that had seen keys before must be shrunk.
template <bool kMasked, bool kCapped, bool kDropout>
bool softmax_of(const AttentionHead& head, int64_t query, int64_t row, int64_t rows, int64_t begin,
                int64_t count, const uint32_t* positions, ForwardScratch& s) {
  const float scale = head.scale;
  const Vec unit = set1(kCapped ? 1.0f : scale * kLog2E);
  const Vec cap_scale = set1(kCapped ? scale / head.softcap : 0), cap = set1(head.softcap * kLog2E);
  const auto line_of = [&](int64_t r) {
    ScoreLine line{s.scores + r * kScoreStride, tile_room(count), 0, count};
    if constexpr (kMasked) {
      const int64_t i = (query + row + r) / head.group;
      line.low = first_key(head, i) - begin;
      line.high = smaller(count, end_key(head, i) - begin);
    }
    return line;
  };
  alignas(64) float found[kTileScoreRows];
  for (int64_t r = 0; r < kTileScoreRows; ++r) {
    found[r] =
        r < rows ? largest_score<kMasked, kCapped>(line_of(r), unit, cap_scale, cap) : kNothing;
  }
  const Vec before = load(s.largest + row);
  const Vec most = maximum(before, load(found));
  // While a row has seen no key, exponentials are relative to a finite number: 2^−inf = 0.
  const Vec base = maximum(set1(-3.0e38f), most);
  const Vec shrink = exp2(sub(before, base));
  store(s.largest + row, most);
  store(found, base);
  store(s.shrink + row, shrink);
  for (int64_t r = 0; r < rows; ++r) {
    bfloat16* to = s.probabilities + row / kTileRows * kProbabilityStrip + r * kTileDepth;
    const uint64_t token =
        kDropout ? static_cast<uint64_t>(head.query_index[query + row + r]) : uint64_t{0};
    const Vec total = probabilities_of<kMasked, kDropout>(head, line_of(r), unit, set1(found[r]),
                                                          token, positions, to);
    float* sum = s.totals + (row + r) * kLanes;
    store(sum, fma(load(sum), set1(s.shrink[row + r]), total));
  }
  return (_mm512_cmp_ps_mask(shrink, set1(1.0f), _CMP_NEQ_UQ) & lanes_between(0, rows)) != 0;
}
static_assert(kTileScoreRows == kLanes && kTileScoreRows == kTileRows);

using Softmax = bool (*)(const AttentionHead&, int64_t, int64_t, int64_t, int64_t, int64_t,
                         const uint32_t*, ForwardScratch&);
Softmax softmax_for(const AttentionHead& head, bool masked) {
  static constexpr Softmax kAll[2][2][2] = {
      {{softmax_of<false, false, false>, softmax_of<false, false, true>},
       {softmax_of<false, true, false>, softmax_of<false, true, true>}},
      {{softmax_of<true, false, false>, softmax_of<true, false, true>},
       {softmax_of<true, true, false>, softmax_of<true, true, true>}}};
  return kAll[masked][head.softcap > 0][head.dropout];
}

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
  for (int64_t r = 0; r < rows; ++r) {
    const float total = seen ? sum(load(s.totals + r * kLanes)) : 0.0f;
    // Not "total > 0": a NaN must propagate.
    const bool nothing = total == 0;
    const Vec inverse = set1(nothing ? 0.0f : 1.0f / total);
    const float* from = s.out + r * s.out_stride;
    const int64_t i = (query + r) / head.group, member = (query + r) % head.group;
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
  // Zero the rows of the last strip beyond the last query.
  if (rows % kTileRows != 0) memset(s.probabilities, 0, kTileQueries * kTileKeys * 2);
  const int64_t begin = first_key(head, query) / kTileDepth * kTileDepth, end = end_key(head, last);
  TileProduct scores{.rows = 0, .columns = 0, .steps = tile_steps(head.width)};
  scores.a_strip = s.q_strip;
  scores.b_strip = problem.keys.strip;
  scores.c = s.scores, scores.c_stride = kScoreStride;
  TileProduct values{.rows = rows, .columns = head.value_width, .steps = 0};
  values.a = s.probabilities, values.a_strip = kProbabilityStrip;
  values.b_strip = problem.values.strip;
  values.c = s.out, values.c_stride = s.out_stride;
  alignas(64) uint32_t positions[kTileKeys];
  float bias[kTileQueries + kTileKeys];
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
      scores.columns = count;
      scores.b = problem.keys.data + key / kTileColumns * problem.keys.strip;
      const bool masked = count % kTileDepth != 0 || first_key(head, last) > key ||
                          end_key(head, query) < key + count;
      const Softmax softmax = softmax_for(head, masked);
      for (int64_t row = 0; row < rows; row += kTileScoreRows) {
        scores.rows = smaller(kTileScoreRows, rows - row);
        scores.a = s.q + row / kTileRows * s.q_strip;
        tiles.product(scores);
        if (head.bias != nullptr)
          add_bias(bias, rows - 1, row, scores.rows, tile_room(count), s.scores);
        const bool changed =
            softmax(head, query, row, scores.rows, key, count, positions, s) && key > begin;
        if (changed) shrink_out(s, row, scores.rows);
      }
      values.steps = tile_steps(count);
      values.b = problem.values.data + key / kTileDepth * kTileElements;
      values.accumulate = key > begin;
      tiles.product(values);
    }
  }
  finish_rows(head, query, rows, begin < end, s);
}

}  // namespace viaduct::cpu::VIADUCT_ISA
