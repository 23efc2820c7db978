#pragma once
// Look-up of embedding rows, and its gradient. The table may be a part of the vocabulary: its rows
// [first_row, first_row + R). Ids outside that range give zeros and no gradient (another rank has
// them).

#include "ops/dispatch.h"

namespace viaduct {

/// out [T, H] (= or +=) scale · weight[ids − first_row]. Codes of FP8 are copied as they are.
struct EmbeddingForwardArgs {
  Tensor ids;     // i32 [T]
  Tensor weight;  // [R, H], floating, contiguous; or e4m3, e5m2 (scale 1, assign)
  Tensor out;     // [T, H], dtype of weight or f32; of codes, that of weight
  int64_t first_row = 0;
  double scale = 1;
  WriteMode mode = WriteMode::assign;
};

void embedding_forward(OpContext& context, const EmbeddingForwardArgs& args);

/// d_weight [R, H] f32 (f64 for f64) += scale · d_out, row by row in token order: deterministic,
/// without atomics. With `mode` = assign, rows without a token become zero. Tokens with id
/// `padding_id` contribute nothing.
struct EmbeddingBackwardArgs {
  Tensor ids;
  Tensor d_out;
  Tensor d_weight;
  int64_t first_row = 0;
  double scale = 1;
  WriteMode mode = WriteMode::accumulate;
  int64_t padding_id = -1;  // -1: none
};

void embedding_backward(OpContext& context, const EmbeddingBackwardArgs& args);

}  // namespace viaduct
