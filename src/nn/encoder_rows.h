#pragma once
// The rows of the encoder that a micro-batch of an encoder-decoder model has beside those of its
// decoder, and which of them each document of the decoder attends to.

#include "nn/segment.h"

namespace viaduct {

struct EncoderRows {
  /// What the encoder's segments get as their batch; without targets. Tokens of padding are
  /// documents of their own. Context ranks have whole rows, equally many. Undefined tensors in a
  /// pass of generation without the encoder.
  Batch rows;
  int64_t keys = 0;  // tokens of the rows of all context ranks
  /// Cross attention: queries [q_offsets[d], q_offsets[d + 1]) of the decoder see keys
  /// [kv_offsets[d], kv_offsets[d + 1]) of the encoder. i32 [documents + 1]; either may have empty
  /// documents where the other has padding.
  Tensor q_offsets, kv_offsets;
  int64_t max_queries = 0, max_keys = 0;  // of a document
  double pairs = 0;                       // sum over documents of queries · keys

  /// Whether the encoder's segments run.
  bool encodes() const { return static_cast<bool>(rows.ids); }
};

/// ShapeError if the batch has none.
const EncoderRows& encoder_rows(const Batch& batch);

/// While it lives the context has the token indices of the encoder's rows, which adapters of layers
/// that read the encoder's output drop by. Only for rows that context ranks do not share.
class EncoderTokens {
 public:
  EncoderTokens(RankContext& context, const Batch& batch);
  ~EncoderTokens() { context_.token_index = tokens_; }
  EncoderTokens(const EncoderTokens&) = delete;
  EncoderTokens& operator=(const EncoderTokens&) = delete;

 private:
  RankContext& context_;
  Tensor tokens_;
};

/// The output [stream tokens of the encoder's rows of all context ranks, H] of an encoder, normed,
/// in the activation format; as a gradient, its sum over the layers that read it.
inline constexpr std::string_view kEncoded = "encoded";
/// Its declaration, for `hidden` features of the encoder's rows `rows`. `needs_gradient`: something
/// in front of it trains.
EdgeTensor encoded_edge(const RankContext& context, const Batch& rows, int64_t hidden,
                        bool needs_gradient);

}  // namespace viaduct
