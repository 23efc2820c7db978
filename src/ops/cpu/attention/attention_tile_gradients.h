#pragma once
// Part of the attention kernels on tiles: the scratch of the backward, which queries see which
// keys, and the gradients of scores as tiles.
//
// Rows of scores and of their gradients are keys here, so that log-sum-exp and delta are vectors,
// and probabilities and gradients become A tiles (rows are keys, queries are contracted) by
// rounding only; two interleaved rows are the B tiles of dqᵀ += kᵀ · gradientsᵀ.

#include <string.h>

#include "ops/cpu/attention/attention_tile_rows.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

constexpr int64_t kQueryRoom = kTileBackwardQueries;
constexpr int64_t kKeyRoom = kTileBackwardKeys;
constexpr int64_t kQueryStride = kQueryRoom + 16;              // of rows of FP32
constexpr int64_t kGradientStrip = kQueryRoom * kTileRows;     // A tiles of keys × queries
constexpr int64_t kTransposedStrip = kKeyRoom * kTileColumns;  // B tiles of keys × queries

/// Scratch of a block of queries. `_columns`: queries are columns, contracted over the width;
/// `_depth`: queries are contracted, columns are the width.
struct BackwardScratch {
  bfloat16 *q_columns, *q_depth, *d_out_columns, *d_out_depth;
  bfloat16 *probabilities, *gradients, *gradient_pairs;
  float* dq;                        // [D][kQueryStride], transposed
  float *scores, *score_gradients;  // [kTileScoreRows][kQueryStride]
  int64_t q_strip, d_out_strip;     // of `_columns`; for `_depth` it is kQueryRoom · 16
  alignas(64) float lse[kQueryRoom], delta[kQueryRoom];
  alignas(64) uint32_t token_low[kQueryRoom], token_high[kQueryRoom];

  BackwardScratch(const AttentionHead& head, char* scratch)
      : q_strip(tile_room(head.width) * kTileColumns),
        d_out_strip(tile_room(head.value_width) * kTileColumns) {
    const auto tiles = [&](int64_t elements) {
      auto* at = reinterpret_cast<bfloat16*>(scratch);
      scratch += elements * 2;
      return at;
    };
    const auto floats = [&](int64_t count) { return reinterpret_cast<float*>(tiles(2 * count)); };
    const int64_t width = tile_room(head.width), value_width = tile_room(head.value_width);
    q_columns = tiles(kQueryRoom * width);
    q_depth = tiles(kQueryRoom * width);
    d_out_columns = tiles(kQueryRoom * value_width);
    d_out_depth = tiles(kQueryRoom * value_width);
    probabilities = tiles(kKeyRoom * kQueryRoom);
    gradients = tiles(kKeyRoom * kQueryRoom);
    gradient_pairs = tiles(kKeyRoom * kQueryRoom);
    dq = floats(width * kQueryStride);
    scores = floats(kTileScoreRows * kQueryStride);
    score_gradients = floats(kTileScoreRows * kQueryStride);
  }
};

/// Packs `rows` queries of q or d_out in both ways.
void pack_queries(const TileKernels& tiles, const void* data, int64_t query, int64_t token,
                  int64_t rows, int64_t width, bfloat16* columns, int64_t strip, bfloat16* depth) {
  const auto* from = static_cast<const bfloat16*>(data) + query * token;
  tiles.pack_b({from, DType::bf16, token, false, rows, width}, columns, strip);
  // Strips are processed in pairs.
  if (tile_strips(rows) % 2 != 0) memset(columns + tile_strips(rows) * strip, 0, strip * 2);
  tiles.pack_b({from, DType::bf16, token, true, width, rows}, depth, kQueryRoom * kTileColumns);
}

void load_queries(const AttentionHead& head, int64_t query, int64_t rows, BackwardScratch& s) {
  for (int64_t r = 0; r < kQueryRoom; ++r) {
    // Rows without visible keys, and the padding, get probability 2^−inf = 0.
    s.lse[r] = __builtin_inff();
    s.delta[r] = 0;
    s.token_low[r] = s.token_high[r] = 0;
    if (r >= rows) continue;
    if (head.lse[query + r] != kNothing) {
      s.lse[r] = head.lse[query + r] * kLog2E;
      s.delta[r] = head.delta[query + r];
    }
    if (!head.dropout) continue;
    const auto token = static_cast<uint64_t>(head.query_index[query + r]);
    s.token_low[r] = static_cast<uint32_t>(token);
    s.token_high[r] = static_cast<uint32_t>(token >> 32);
  }
}

/// A block of scores: `count` keys. Its queries are those of the scratch.
struct Window {
  int64_t query, key;  // global index of the scratch's first query and of the block's first key
  int64_t count;       // keys
};

/// The queries [begin, end) of the scratch that see any of kTileDepth keys of a block, in whole
/// pairs of strips; [clear_begin, clear_end) of them see all of these keys.
struct SeenBy {
  int64_t begin = 0, clear_begin = 0, clear_end = 0, end = 0;  // multiples of 32

  SeenBy() = default;
  /// The keys [j, j + kTileDepth) of the window, of which there are `rows` queries.
  SeenBy(const AttentionHead& head, const Window& w, int64_t j, int64_t rows) {
    const int64_t first = w.key + j, last = w.key + smaller(j + kTileDepth, w.count) - 1;
    if (first > last) return;
    const int64_t low = larger_of(0, first_query(head, first) - w.query);
    const int64_t high = smaller(rows, end_query(head, last) - w.query);
    if (low >= high) return;
    begin = low / kTileDepth * kTileDepth;
    end = tile_room(high);
    clear_begin = smaller(end, tile_room(larger_of(begin, first_query(head, last) - w.query)));
    clear_end = larger_of(0, end_query(head, first) - w.query) / kTileDepth * kTileDepth;
    clear_end = larger_of(clear_begin, smaller(end, clear_end));
  }
  bool nothing() const { return begin >= end; }
};

/// Probabilities (times dropout) and gradients of 16 queries with one key.
template <bool kMasked, bool kCapped, bool kDropout>
inline ScoreGradient entry_of(const AttentionHead& head, const BackwardScratch& s, int64_t key,
                              int64_t row, int64_t r, int64_t low, int64_t high) {
  const int64_t at = row * kQueryStride + r;
  Vec x = load(s.scores + at), slope = set1(head.scale);
  if constexpr (kCapped) {
    const SoftCapped capped = soft_capped(mul(x, set1(head.scale / head.softcap)));
    slope = mul(slope, capped.slope);
    x = _mm512_fmsub_ps(capped.tanh, set1(head.softcap * kLog2E), load(s.lse + r));
  } else {
    x = _mm512_fmsub_ps(x, set1(head.scale * kLog2E), load(s.lse + r));
  }
  const Vec p = exp2(x);
  const Vec d = load(s.score_gradients + at), delta = load(s.delta + r);
  ScoreGradient entry = score_gradient(p, d, delta);
  if constexpr (kDropout) {
    entry =
        score_gradient(p, d, delta,
                       draw_factors(head, load_words(s.token_low + r), load_words(s.token_high + r),
                                    words(position_of(head, key))));
  }
  entry.d = mul(entry.d, slope);
  if constexpr (kMasked) {
    const Mask seen = lanes_between(low - r, high - r);
    entry.used = select(seen, entry.used, zero());
    entry.d = select(seen, entry.d, zero());
  }
  return entry;
}

/// Converts scores and gradients of the keys [first, first + kTileScoreRows) of a block and of the
/// queries [begin, end) to tiles.
template <bool kMasked, bool kCapped, bool kDropout>
void make_tiles(const AttentionHead& head, const Window& w, int64_t first, int64_t begin,
                int64_t end, BackwardScratch& s) {
  alignas(64) static constexpr int16_t kLow[32] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,
                                                   37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
                                                   11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i low_pairs = _mm512_load_si512(kLow);
  const __m512i high_pairs = _mm512_add_epi16(low_pairs, _mm512_set1_epi16(16));
  const bool keep_gradients = head.d_bias != nullptr;
  for (int64_t j = first; j < first + kTileScoreRows; j += 2) {
    const int64_t in_tile = j / kTileRows * kGradientStrip + j % kTileRows * kTileDepth;
    bfloat16* pairs =
        s.gradient_pairs + j / kTileDepth * kTileElements + j % kTileDepth / 2 * 2 * kTileColumns;
    for (int64_t r = begin; r < end; r += 2 * kLanes) {
      __m512i d[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
#pragma GCC unroll 2
      for (int row = 0; row < 2; ++row) {
        __m512i p = _mm512_setzero_si512();
        if (j + row < w.count) {
          const int64_t key = w.key + j + row;
          const int64_t low = kMasked ? first_query(head, key) - w.query : 0;
          const int64_t high = kMasked ? end_query(head, key) - w.query : 0;
          const ScoreGradient a =
              entry_of<kMasked, kCapped, kDropout>(head, s, key, j + row - first, r, low, high);
          const ScoreGradient b = entry_of<kMasked, kCapped, kDropout>(
              head, s, key, j + row - first, r + kLanes, low, high);
          p = narrow_both(a.used, b.used);
          d[row] = narrow_both(a.d, b.d);
          if (keep_gradients) {
            float* kept = s.score_gradients + (j + row - first) * kQueryStride + r;
            store(kept, a.d);
            store(kept + kLanes, b.d);
          }
        }
        const int64_t tile = in_tile + row * kTileDepth + r / kTileDepth * kTileElements;
        _mm512_store_si512(s.probabilities + tile, p);
        _mm512_store_si512(s.gradients + tile, d[row]);
      }
      bfloat16* to = pairs + r / kTileColumns * kTransposedStrip;
      _mm512_store_si512(to, _mm512_permutex2var_epi16(d[0], low_pairs, d[1]));
      _mm512_store_si512(to + kTransposedStrip, _mm512_permutex2var_epi16(d[0], high_pairs, d[1]));
    }
  }
}

using MakeTiles = void (*)(const AttentionHead&, const Window&, int64_t, int64_t, int64_t,
                           BackwardScratch&);
MakeTiles make_tiles_for(const AttentionHead& head, bool masked) {
  static constexpr MakeTiles kAll[2][2][2] = {
      {{make_tiles<false, false, false>, make_tiles<false, false, true>},
       {make_tiles<false, true, false>, make_tiles<false, true, true>}},
      {{make_tiles<true, false, false>, make_tiles<true, false, true>},
       {make_tiles<true, true, false>, make_tiles<true, true, true>}}};
  return kAll[masked][head.softcap > 0][head.dropout];
}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
