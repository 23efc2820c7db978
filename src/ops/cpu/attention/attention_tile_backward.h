#pragma once
// Part of the attention kernels on tiles: the backward of one block of queries against a run of
// keys.

#include "ops/cpu/attention/attention_bias_rows.h"
#include "ops/cpu/attention/attention_tile_gradients.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// The bias of the scores of a window, if there is one, and its gradient. Entries of a line have
/// the distance of the last key and the first query, one less each; scores are not scaled,
/// gradients are.
struct BiasLines {
  const AttentionHead& head;
  const Window& w;
  int64_t queries;  // an upper bound, whole vectors
  int64_t first;    // distance
  float bias[kKeyRoom + kQueryRoom];
  float gradients[kKeyRoom + kQueryRoom];

  BiasLines(const AttentionHead& of, const Window& window, int64_t rows)
      : head(of),
        w(window),
        queries(tile_room(rows)),
        first(w.key + w.count - 1 - w.query - head.diagonal) {
    if (head.bias != nullptr)
      bias_line(head, first, -1, w.count - 1 + queries, 1.0f / head.scale, bias);
    if (head.d_bias != nullptr) memset(gradients, 0, sizeof(gradients));
  }
  /// Adds the bias to the scores of `rows` keys from j on.
  void add(int64_t j, int64_t rows, const SeenBy& seen, const BackwardScratch& s) const {
    for (int64_t row = 0; row < rows; ++row) {
      add_vectors(bias + w.count - 1 - j - row + seen.begin, seen.end - seen.begin,
                  s.scores + row * kQueryStride + seen.begin);
    }
  }
  void add_gradients(int64_t j, int64_t rows, const SeenBy& seen, const BackwardScratch& s) {
    for (int64_t row = 0; row < rows; ++row) {
      add_vectors(s.score_gradients + row * kQueryStride + seen.begin, seen.end - seen.begin,
                  gradients + w.count - 1 - j - row + seen.begin);
    }
  }
  void finish() const {
    add_to_bias_gradient(head, first, w.count - 1 + queries, 1.0 / static_cast<double>(head.scale),
                         gradients);
  }
};

/// dq [rows, D] += the transpose of s.dq.
void add_to_queries(const AttentionHead& head, int64_t query, int64_t rows,
                    const BackwardScratch& s) {
  for (int64_t i = 0; i < head.width; i += kLanes) {
    const int64_t width = smaller(kLanes, head.width - i);
    const Mask some = lanes_between(0, width);
    for (int64_t r = 0; r < rows; r += kLanes) {
      __m512i v[16];
#pragma GCC unroll 16
      for (int64_t n = 0; n < 16; ++n) {
        v[n] = _mm512_setzero_si512();
        if (n < width) v[n] = _mm512_loadu_si512(s.dq + (i + n) * kQueryStride + r);
      }
      transpose(v);
      const int64_t count = smaller(16, rows - r);
#pragma GCC unroll 16
      for (int64_t n = 0; n < 16; ++n) {
        if (n >= count) continue;
        float* to = head.dq + (query + r + n) * head.dq_token + i;
        store(to, add(load(to, some), _mm512_castsi512_ps(v[n])), some);
      }
    }
  }
}

/// Products with the tiles of a block of keys, added to the sums of dk, dv and dq.
class GradientProducts {
 public:
  GradientProducts(const TileKernels& tiles, const TileBackward& problem, const BackwardScratch& s,
                   int64_t first)
      : tiles_(tiles), problem_(problem), s_(s), first_(first) {}

  /// dv and dk of the keys [j, j + kTileDepth) of the window: sums over the queries that see them.
  void keys(const Window& w, int64_t j, const SeenBy& seen) const {
    const AttentionHead& head = problem_.head;
    const int64_t rows = smaller(kTileDepth, w.count - j), key = w.key + j - first_;
    const int64_t skipped = seen.begin / kTileDepth * kTileElements;
    const int64_t tile = j / kTileRows * kGradientStrip + skipped;
    TileProduct p{.rows = rows, .columns = head.value_width, .steps = 0};
    p.steps = (seen.end - seen.begin) / kTileDepth;
    p.accumulate = true;
    p.a = s_.probabilities + tile, p.a_strip = kGradientStrip;
    p.b = s_.d_out_depth + skipped, p.b_strip = kQueryRoom * kTileColumns;
    p.c_stride = tile_room(head.value_width);
    p.c = problem_.dv + key * p.c_stride;
    tiles_.product(p);
    p.columns = head.width;
    p.a = s_.gradients + tile;
    p.b = s_.q_depth + skipped;
    p.c_stride = tile_room(head.width);
    p.c = problem_.dk + key * p.c_stride;
    tiles_.product(p);
  }
  /// dq of the queries [begin, end) of the scratch: sums over keys of the window, `steps` times
  /// kTileDepth from j on.
  void queries(const Window& w, int64_t j, int64_t steps, int64_t begin, int64_t end) const {
    if (begin >= end) return;
    TileProduct p{.rows = problem_.head.width, .columns = end - begin, .steps = steps};
    const int64_t step = j / kTileDepth;
    p.accumulate = true;
    p.a = problem_.transposed.data + ((w.key - first_) / kTileDepth + step) * kTileElements;
    p.a_strip = problem_.transposed.strip;
    p.b = s_.gradient_pairs + begin / kTileColumns * kTransposedStrip + step * kTileElements;
    p.b_strip = kTransposedStrip;
    p.c = s_.dq + begin, p.c_stride = kQueryStride;
    tiles_.product(p);
  }

 private:
  const TileKernels& tiles_;
  const TileBackward& problem_;
  const BackwardScratch& s_;
  int64_t first_;  // key of the run
};

/// Prefetches what is read after the products of a block, a part for each strip of keys, so that
/// memory works while they are computed: the gradients to which its sums are added, and during the
/// first keys of the block the next queries.
void fetch_next(const TileBackward& problem, const Window& w, int64_t j, int64_t rows,
                bool first_keys) {
  const AttentionHead& head = problem.head;
  if (problem.last) {
    fetch_rows(head.dk, head.dk_token, w.key + j, w.key + j + rows, head.width);
    fetch_rows(head.dv, head.dv_token, w.key + j, w.key + j + rows, head.value_width);
  }
  if (!first_keys) return;
  constexpr int64_t kPart = kQueryRoom * kTileScoreRows / kKeyRoom;
  const auto fetch = [&](auto* from, int64_t token, int64_t query, int64_t width) {
    query += j / kTileScoreRows * kPart;
    fetch_rows(from, token, query, smaller(query + kPart, head.queries), width);
  };
  fetch(head.dq, head.dq_token, w.query, head.width);
  fetch(static_cast<const bfloat16*>(head.q), head.q_token, w.query + kQueryRoom, head.width);
  fetch(static_cast<const bfloat16*>(head.d_out), head.out_token, w.query + kQueryRoom,
        head.value_width);
}

/// Scores and their gradients of the keys [j, j + kTileDepth) of the window, as tiles.
void score_tiles(const TileKernels& tiles, const TileBackward& problem, const Window& w, int64_t j,
                 int64_t first, bool first_keys, const SeenBy& seen, BiasLines& bias,
                 BackwardScratch& s) {
  const AttentionHead& head = problem.head;
  const int64_t columns = seen.end - seen.begin;
  TileProduct scores{.rows = 0, .columns = columns, .steps = tile_steps(head.width)};
  scores.b = s.q_columns + seen.begin / kTileColumns * s.q_strip, scores.b_strip = s.q_strip;
  scores.c = s.scores + seen.begin, scores.c_stride = kQueryStride;
  TileProduct gradients{.rows = 0, .columns = columns, .steps = tile_steps(head.value_width)};
  gradients.b = s.d_out_columns + seen.begin / kTileColumns * s.d_out_strip;
  gradients.b_strip = s.d_out_strip;
  gradients.c = s.score_gradients + seen.begin, gradients.c_stride = kQueryStride;
  const MakeTiles masked = make_tiles_for(head, true), clear = make_tiles_for(head, false);
  for (const int64_t end = j + kTileDepth; j < end; j += kTileScoreRows) {
    scores.rows = gradients.rows = smaller(kTileScoreRows, w.count - j);
    if (scores.rows > 0) {
      const int64_t strip = (w.key - first + j) / kTileRows;
      fetch_next(problem, w, j, scores.rows, first_keys);
      scores.a = problem.keys.data + strip * problem.keys.strip;
      tiles.product(scores);
      if (head.bias != nullptr) bias.add(j, scores.rows, seen, s);
      gradients.a = problem.values.data + strip * problem.values.strip;
      tiles.product(gradients);
    }
    masked(head, w, j, seen.begin, seen.clear_begin, s);
    clear(head, w, j, seen.clear_begin, seen.clear_end, s);
    masked(head, w, j, seen.clear_end, seen.end, s);
    if (head.d_bias != nullptr && scores.rows > 0) bias.add_gradients(j, scores.rows, seen, s);
  }
}

}  // namespace

void attention_backward_block(const TileKernels& tiles, const TileBackward& problem, int64_t query,
                              int64_t first, int64_t last, char* scratch) {
  const AttentionHead& head = problem.head;
  const int64_t rows = smaller(kQueryRoom, head.queries - query);
  const int64_t begin = larger_of(first, first_key(head, query) / kTileDepth * kTileDepth);
  const int64_t end = smaller(last, end_key(head, query + rows - 1));
  if (begin >= end) return;
  BackwardScratch s(head, scratch);
  pack_queries(tiles, head.q, query, head.q_token, rows, head.width, s.q_columns, s.q_strip,
               s.q_depth);
  pack_queries(tiles, head.d_out, query, head.out_token, rows, head.value_width, s.d_out_columns,
               s.d_out_strip, s.d_out_depth);
  load_queries(head, query, rows, s);
  for (int64_t i = 0; i < tile_room(head.width) * kQueryStride; ++i) s.dq[i] = 0;
  {
    const TileScope scope(tiles);
    const GradientProducts products(tiles, problem, s, first);
    static_assert(kKeyRoom == 2 * kTileDepth);
    for (int64_t key = begin; key < end; key += kKeyRoom) {
      const Window w{query, key, smaller(kKeyRoom, end - key)};
      // Each half of the keys is multiplied with the queries that see it.
      const SeenBy low(head, w, 0, rows), high(head, w, kTileDepth, rows);
      if (low.nothing() && high.nothing()) continue;
      BiasLines bias(head, w, rows);
      const auto make_tiles = [&](int64_t j, const SeenBy& seen) {
        if (!seen.nothing()) score_tiles(tiles, problem, w, j, first, key == begin, seen, bias, s);
      };
      make_tiles(0, low);
      make_tiles(kTileDepth, high);
      if (head.d_bias != nullptr) bias.finish();
      if (!low.nothing()) products.keys(w, 0, low);
      if (!high.nothing()) products.keys(w, kTileDepth, high);
      // Queries see the low half alone, both, or the high half alone.
      if (high.nothing()) {
        products.queries(w, 0, 1, low.begin, low.end);
      } else if (low.nothing()) {
        products.queries(w, kTileDepth, 1, high.begin, high.end);
      } else {
        products.queries(w, 0, 1, low.begin, smaller(high.begin, low.end));
        products.queries(w, 0, 2, high.begin, low.end);
        products.queries(w, kTileDepth, 1, larger_of(high.begin, low.end), high.end);
      }
    }
  }
  add_to_queries(head, query, rows, s);
}

}  // namespace viaduct::cpu::VIADUCT_ISA
