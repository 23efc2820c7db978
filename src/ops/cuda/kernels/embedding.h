#pragma once
// Look-up of rows and its gradient (ops/embedding.h), with the cpu's bits. The gradient sorts the
// tokens by row, stable, so that each row has one owner who adds its tokens in their order.

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

struct EmbeddingRows {
  const int32_t* ids;
  Rows weight, out;
  int64_t tokens, rows, width, first_row;
  float scale;
  bool accumulate;
};
void embedding_forward(const EmbeddingRows& args, Stream stream);

/// The look-up of codes of FP8, which are copied unchanged; strides in bytes.
struct CodeRows {
  const int32_t* ids;
  const uint8_t* weight;
  uint8_t* out;
  int64_t weight_stride, out_stride;
  int64_t tokens, rows, width, first_row;
};
void copy_code_rows(const CodeRows& args, Stream stream);

/// A token with the row that it belongs to; tokens of no row have the row after the last one.
struct TokenOfRow {
  int32_t row, token;
};

/// The radix sort: digits of 8 bits, a block for each 2,048 tokens.
inline constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
inline constexpr int64_t kTokensPerBlock = 2048;

struct TokenSort {
  const int32_t* ids;
  int64_t tokens, rows, first_row, padding_id;
  TokenOfRow* buffers[2];  // [tokens] each
  int32_t* counts;         // [blocks, kDigits]
  int passes;
};
/// The sorted tokens: one of the buffers.
const TokenOfRow* sort_tokens(const TokenSort& args, Stream stream);

/// d_weight [rows, width] += scale · Σ d_out over the tokens of each row.
struct EmbeddingGradientRows {
  const TokenOfRow* sorted;
  Rows d_out;
  float* d_weight;
  int64_t tokens, rows, width;
  float scale;
};
void embedding_backward(const EmbeddingGradientRows& args, Stream stream);

}  // namespace viaduct::cuda
