#pragma once
// Rotary positions applied to heads: one op in place, or composed of elementwise ops that write new
// tensors.

#include "nn/rotary_table.h"
#include "ops/dispatch.h"

namespace viaduct {

struct RotaryEmbedding {
  const RotaryTable* table = nullptr;  // null: no rotary positions
  /// false: cos and sin are looked up, x is rotated by copies, and the products and their sum are
  /// separate ops, with intermediates in the format of the tables.
  bool fused = true;
  bool interleaved = false;  ///< pairs are neighbours (only if fused)
  /// Of queries, where they have another (attention temperature); null: `table`.
  const RotaryTable* query_table = nullptr;

  RotaryEmbedding of_queries() const {
    RotaryEmbedding queries = *this;
    if (query_table != nullptr) queries.table = query_table;
    return queries;
  }

  /// x [T, N, D] rotated by `positions` (`inverse`: back, the gradient): x itself, changed, or a
  /// new tensor with `tag`.
  Tensor apply(OpContext& context, const Tensor& positions, const Tensor& x, MemoryTag tag,
               bool inverse = false) const;
};

}  // namespace viaduct
