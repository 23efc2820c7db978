#pragma once
// Part of the attention kernels on tiles: the softmax of the forward.
//
// Rows of scores are queries, so probabilities become A tiles by rounding only: 32 neighbouring
// keys are a row of a tile.

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

/// The keys [begin, end) of a block that a strip of rows may see, counted from the block's first;
/// begin: a multiple of kTileDepth.
struct SeenKeys {
  int64_t begin = 0, end = 0;
  bool masked = false;  // some row does not see all of them, up to whole steps

  SeenKeys() = default;
  /// The rows (query, head of the group) [row, row + rows) and the `count` keys from `key` on.
  SeenKeys(const AttentionHead& head, int64_t row, int64_t rows, int64_t key, int64_t count) {
    const int64_t first = row / head.group, last = (row + rows - 1) / head.group;
    begin = larger_of(0, first_key(head, first) - key) / kTileDepth * kTileDepth;
    end = smaller(count, end_key(head, last) - key);
    masked = end % kTileDepth != 0 || first_key(head, last) > key + begin ||
             end_key(head, first) < key + end;
  }
  bool nothing() const { return begin >= end; }
  bool operator==(const SeenKeys& other) const { return begin == other.begin && end == other.end; }
};

/// One row's scores against the keys [begin, room) of a block, of which it sees [low, high).
struct ScoreLine {
  float* scores;
  int64_t begin, room, low, high;  // begin, room: whole pairs of vectors
  int64_t clear_begin, clear_end;  // whole pairs of which it sees all

  ScoreLine(float* of, const SeenKeys& seen, int64_t from, int64_t to)
      : scores(of),
        begin(seen.begin),
        room(tile_room(seen.end)),
        low(from),
        high(to),
        clear_begin(smaller(room, tile_room(larger_of(begin, low)))),
        clear_end(larger_of(clear_begin, larger_of(0, high) / kTileDepth * kTileDepth)) {}
};

/// The largest score of a row; with a soft cap the row then holds scores in units of log 2.
template <bool kMasked, bool kCapped>
inline float largest_score(const ScoreLine& line, Vec cap_scale, Vec cap) {
  Vec most[2] = {set1(kNothing), set1(kNothing)};
  const auto pairs = [&]<bool kSome>(int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; j += 2 * kLanes) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const int64_t at = j + half * kLanes;
        Vec s = load(line.scores + at);
        if constexpr (kCapped) {
          s = mul(cap, tanh(mul(s, cap_scale)));
          store(line.scores + at, s);
        }
        if constexpr (kSome)
          s = select(lanes_between(line.low - at, line.high - at), s, set1(kNothing));
        most[half] = maximum(most[half], s);
      }
    }
  };
  if constexpr (kMasked) {
    pairs.template operator()<true>(line.begin, line.clear_begin);
    pairs.template operator()<false>(line.clear_begin, line.clear_end);
    pairs.template operator()<true>(line.clear_end, line.room);
  } else {
    pairs.template operator()<false>(line.begin, line.room);
  }
  return _mm512_reduce_max_ps(maximum(most[0], most[1]));
}

/// Probabilities 2^(unit · score − base) of a row as a row of A tiles; returns their sum by lanes.
template <bool kMasked, bool kDropout>
inline Vec probabilities_of(const AttentionHead& head, const ScoreLine& line, Vec unit, Vec base,
                            uint64_t token, const uint32_t* positions, bfloat16* to) {
  Vec total = zero();
  const Words low = words(static_cast<uint32_t>(token));
  const Words high = words(static_cast<uint32_t>(token >> 32));
  const auto pairs = [&]<bool kSome>(int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; j += 2 * kLanes) {
      Vec p[2];
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const int64_t at = j + half * kLanes;
        p[half] = exp2(_mm512_fmsub_ps(load(line.scores + at), unit, base));
        if constexpr (kSome)
          p[half] = select(lanes_between(line.low - at, line.high - at), p[half], zero());
        total = add(total, p[half]);
        if constexpr (kDropout)
          p[half] = mul(p[half], draw_factors(head, low, high, load_words(positions + at)));
      }
      _mm512_storeu_si512(to + j / kTileDepth * kTileElements, narrow_both(p[0], p[1]));
    }
  };
  if constexpr (kMasked) {
    pairs.template operator()<true>(line.begin, line.clear_begin);
    pairs.template operator()<false>(line.clear_begin, line.clear_end);
    pairs.template operator()<true>(line.clear_end, line.room);
  } else {
    pairs.template operator()<false>(line.begin, line.room);
  }
  return total;
}

/// Scores of `rows` rows times a factor.
void multiply_scores(const ForwardScratch& s, int64_t rows, const SeenKeys& seen, float factor) {
  for (int64_t r = 0; r < rows; ++r) {
    float* line = s.scores + r * kScoreStride;
    for (int64_t j = seen.begin; j < seen.end; j += kLanes)
      store(line + j, mul(load(line + j), set1(factor)));
  }
}

/// Turns scores of the rows (query, head of the group) [row, row + rows) of a block, rows ≤
/// kTileScoreRows, against the keys that they see from `key` on into probabilities in A tiles.
/// Returns whether a row that had seen keys before must be shrunk.
template <bool kMasked, bool kCapped, bool kDropout>
bool softmax_of(const AttentionHead& head, int64_t query, int64_t row, int64_t rows, int64_t key,
                const SeenKeys& seen, const uint32_t* positions, ForwardScratch& s) {
  const float scale = head.scale;
  // Whether the order of scores is that of their units.
  const bool ordered = kCapped || scale * kLog2E > 0;
  if (!ordered) multiply_scores(s, rows, seen, scale * kLog2E);
  const Vec unit = set1(kCapped || !ordered ? 1.0f : scale * kLog2E);
  const Vec cap_scale = set1(kCapped ? scale / head.softcap : 0), cap = set1(head.softcap * kLog2E);
  const auto line_of = [&](int64_t r) {
    int64_t low = 0, high = seen.end;
    if constexpr (kMasked) {
      const int64_t i = (query + row + r) / head.group;
      low = first_key(head, i) - key;
      high = smaller(seen.end, end_key(head, i) - key);
    }
    return ScoreLine(s.scores + r * kScoreStride, seen, low, high);
  };
  alignas(64) float found[kTileScoreRows];
  for (int64_t r = 0; r < kTileScoreRows; ++r)
    found[r] = r < rows ? largest_score<kMasked, kCapped>(line_of(r), cap_scale, cap) : kNothing;
  // Rounding keeps the order: the largest score, in units of log 2, is the largest of these.
  const Vec before = load(s.largest + row);
  const Vec most = maximum(before, mul(load(found), unit));
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

using Softmax = bool (*)(const AttentionHead&, int64_t, int64_t, int64_t, int64_t, const SeenKeys&,
                         const uint32_t*, ForwardScratch&);
Softmax softmax_for(const AttentionHead& head, bool masked) {
  static constexpr Softmax kAll[2][2][2] = {
      {{softmax_of<false, false, false>, softmax_of<false, false, true>},
       {softmax_of<false, true, false>, softmax_of<false, true, true>}},
      {{softmax_of<true, false, false>, softmax_of<true, false, true>},
       {softmax_of<true, true, false>, softmax_of<true, true, true>}}};
  return kAll[masked][head.softcap > 0][head.dropout];
}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
