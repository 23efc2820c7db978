#pragma once
// Functions of attention on tiles per instruction set: one block of queries forward, one backward
// against a run of keys. A head here is one query head (`AttentionHead::group` = 1) and the packed
// keys and values of its key-value head; for a single query, the heads of its group are the rows.

#include "ops/cpu/attention/attention_kernels.h"
#include "ops/cpu/tiles/tiles.h"

namespace viaduct::cpu {

inline constexpr int64_t kTileQueries = 64;           // of a block of the forward
inline constexpr int64_t kTileKeys = 256;             // and its keys at a time
inline constexpr int64_t kTileBackwardQueries = 128;  // of a block of the backward
inline constexpr int64_t kTileBackwardKeys = 64;      // and its keys at a time

inline constexpr int64_t kTileScoreRows = 16;  // rows of scores between product and softmax

/// The smallest multiple of 32 ≥ `size`: whole steps, and whole pairs of strips.
inline constexpr int64_t tile_room(int64_t size) {
  return (size + kTileDepth - 1) / kTileDepth * kTileDepth;
}

/// Keys (or values) of one document and key-value head, or of a run of its keys, as tiles.
struct PackedKeys {
  const bfloat16* data = nullptr;
  int64_t strip = 0;  // elements between strips
};

struct TileForward {
  AttentionHead head;
  PackedKeys keys;    // B: columns are keys, contracted D
  PackedKeys values;  // B: columns are Dv, contracted keys
};

struct TileBackward {
  AttentionHead head;
  // Of the keys of a run.
  PackedKeys keys;        // A: rows are keys, contracted D
  PackedKeys values;      // A: rows are keys, contracted Dv
  PackedKeys transposed;  // A: rows are D of the keys, contracted keys
  /// Sums of dk and dv of the run, dense rows of tile_room(D) and tile_room(Dv) from its first key.
  float* dk = nullptr;
  float* dv = nullptr;
  bool last = false;  // these queries are the last of the run: its sums are added next
};

/// Keys that are summed together, so that their dk and dv stay in the L2 cache.
inline int64_t tile_backward_run(int64_t width, int64_t value_width) {
  const int64_t keys = 65536 / (tile_room(width) + tile_room(value_width)) / kTileBackwardKeys;
  return kTileBackwardKeys * (keys < 1                         ? 1
                              : keys > 512 / kTileBackwardKeys ? 512 / kTileBackwardKeys
                                                               : keys);
}

/// Elements between two strips of a run's values, so that their distance is not a power of two.
inline constexpr int64_t kTileValueGap = 32;

/// Bytes of scratch, 64-byte aligned, of the functions below.
inline int64_t tile_forward_scratch(int64_t width, int64_t value_width) {
  return kTileQueries * (tile_room(width) * 2 + tile_room(value_width) * 4 + kTileKeys * 2 + 64) +
         kTileScoreRows * (kTileKeys + 16) * 4;
}
/// For one query of a group: the forward's scratch, and the keys and values of a run as tiles.
inline int64_t tile_one_query_scratch(int64_t width, int64_t value_width) {
  return tile_forward_scratch(width, value_width) +
         kTileKeys * (tile_room(width) + tile_room(value_width)) * 2 +
         tile_room(value_width) / kTileColumns * kTileValueGap * 2;
}
inline int64_t tile_backward_scratch(int64_t width, int64_t value_width) {
  const int64_t rows = kTileBackwardQueries, both = tile_room(width) + tile_room(value_width);
  return rows * both * 4 +                       // q and d_out, both ways
         tile_room(width) * (rows + 16) * 4 +    // dq transposed
         kTileScoreRows * (rows + 16) * 4 * 2 +  // scores and their gradients
         kTileBackwardKeys * rows * 2 * 3;       // their tiles
}

namespace avx512_bf16 {
/// Queries [query, query + kTileQueries) of the head: writes out and lse.
void attention_forward_block(const TileKernels& tiles, const TileForward& problem, int64_t query,
                             char* scratch);
/// All heads of a group with one query: keys and values are read in place. The same bits as the
/// blocks above.
void attention_one_query(const TileKernels& tiles, const AttentionHead& head, char* scratch);
/// Queries [query, query + kTileBackwardQueries) against the keys [first, last) of a run (first
/// divisible by 32): adds to dq and to the sums of the run.
void attention_backward_block(const TileKernels& tiles, const TileBackward& problem, int64_t query,
                              int64_t first, int64_t last, char* scratch);
}  // namespace avx512_bf16

}  // namespace viaduct::cpu
