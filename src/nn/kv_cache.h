#pragma once
// Keys and values of earlier tokens, for generation: several sequences, the layers and the
// key-value heads that this rank holds; for latent attention the vectors that they are made from,
// as one head (nn/latent_attention.h). All sequences have the same number of rows, which grows by
// whole blocks when the longest one needs it; unused rows are finite and hidden from attention by
// causality.

#include <span>
#include <vector>

#include "ops/dispatch.h"

namespace viaduct {

/// Keys and values of a layer, held by this rank.
struct CachedHeads {
  int64_t kv_heads = 0, head_dim = 0, value_dim = 0;
};

/// Sizes of a cache: the part of the model that this rank holds, and the sequences.
struct CacheShape {
  std::vector<int64_t> layers;         // global numbers of the blocks held by this rank
  int64_t kv_heads = 0, head_dim = 0;  // held by this rank
  int64_t value_dim = 0;               // Dv of values; 0: head_dim
  DType dtype = DType::f32;
  int64_t sequences = 1;
  int64_t positions = 0;                // maximum length of a sequence
  int64_t chunk = 0;                    // tokens of a chunk of attention; 0: no layer has chunks
  std::vector<CachedHeads> heads = {};  // of each of `layers`, where they differ; empty: as above
};

class KeyValueCache {
 public:
  /// Rows are added in blocks of this size.
  static constexpr int64_t kBlock = 128;

  /// Allocates no rows yet.
  KeyValueCache(Device& device, CacheShape shape);

  /// Begins a step with counts[i] new tokens of sequence i (0: none): makes room for them in every
  /// layer. ShapeError beyond `positions`.
  void begin_step(OpContext& context, std::span<const int64_t> counts);
  /// The step's queries and the rows of all sequences, each cut into chunks of a sequence: those
  /// without a new token have no queries.
  struct Chunks {
    Tensor q_offsets, offsets, diagonal;  // i32 [chunks + 1], [chunks + 1] and [chunks]
    int64_t max_keys = 0;
  };
  struct View {
    Tensor k, v;               // [sequences · rows, K, D] and [., K, Dv]
    Tensor offsets, diagonal;  // i32 [sequences + 1] and [sequences], as attention reads them
    int64_t max_keys = 0;      // longest sequence, new tokens included
    Chunks chunks;             // only with chunks
  };
  /// Appends the keys and values of the step's tokens ([T, K, D] and [T, K, Dv], sequence after
  /// sequence) of a layer to those of earlier steps and returns all of them. ShapeError if this
  /// rank does not hold the layer.
  View append(OpContext& context, int64_t layer, const Tensor& k, const Tensor& v);
  /// The tokens of the step are complete in every layer: the next step appends after them.
  void end_step();
  /// The last `tokens` tokens of a sequence do not belong to it: the next step overwrites them.
  void forget(int64_t sequence, int64_t tokens);

  int64_t sequences() const { return shape_.sequences; }
  int64_t length(int64_t sequence) const { return lengths_.at(static_cast<size_t>(sequence)); }
  int64_t positions() const { return shape_.positions; }
  /// Rows per sequence.
  int64_t rows() const { return rows_; }
  /// Makes room for sequences of `tokens` tokens, as the steps up to there would.
  void reserve(OpContext& context, int64_t tokens);

 private:
  /// Of the layer at this place in shape_.layers.
  CachedHeads heads_at(size_t place) const;
  void grow(OpContext& context, int64_t rows);
  void cut_chunks();
  /// `heads`: in a row.
  void write(OpContext& context, const Tensor& from, const Tensor& rows, int64_t heads) const;

  Device& device_;
  CacheShape shape_;
  int64_t rows_ = 0;
  std::vector<int64_t> lengths_, counts_;
  // [sequences, rows, K · D] and [., ., K · Dv], by place in shape_.layers
  std::vector<Tensor> keys_, values_;
  Tensor offsets_, diagonal_;  // i32 [sequences + 1], i32 [sequences]
  int64_t max_keys_ = 0;
  Chunks chunks_;
};

}  // namespace viaduct
