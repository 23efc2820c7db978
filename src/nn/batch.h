#pragma once
// The immutable record of a micro-batch, cut to this rank's context: rows flattened one after the
// other, T tokens. Made by `train` (and `probe`, `generate`); layers only read it.

#include <memory>
#include <vector>

#include "tensor/tensor.h"

namespace viaduct {

class Communicator;
struct ContextLayout;
struct EncoderRows;

/// The tokens k places further on in the same document, for a depth k = 1, 2, … of multi-token
/// prediction (nn/multi_token.h), all [T].
struct ShiftedTokens {
  Tensor ids;          // i32; 0 after the document's end
  Tensor targets;      // i32: of the token k places further on, −1 without loss
  Tensor loss_weight;  // f32, 0 without loss
};

/// Where documents are cut for attention in chunks (Llama 4): a token attends to no other chunk.
/// Offsets as of documents; under context parallelism of the whole rows, as the heads of an
/// exchange a2a have them.
struct AttentionChunks {
  Tensor offsets;  // i32 [chunks + 1]; undefined: no layer attends in chunks
  int64_t longest = 0;
  double causal_pairs = 0;  // as Batch::causal_pairs
};

/// Where features of images stand in place of tokens (nn/image_projector.h).
struct BatchImages {
  Tensor ids;       // i32 [T]: the token's id, −1 at an image; undefined: the model has no images
  Tensor features;  // i32 [T]: at an image the row of its features, −1 at a token
  int64_t rows = 0;  // of features, of all images of the batch
  /// Tokens of images that also see those ahead of them in their image (nn/image_attention.h);
  /// images without a token in between are one. `rows` of them, each image from its end. Under
  /// context parallelism of the whole rows, as the heads of an exchange a2a have them: T there are
  /// those of all context ranks.
  struct Ahead {
    Tensor tokens;    // i32 [rows]: their places in the batch
    Tensor place;     // i32 [T]: where a token is among them, −1: nowhere
    Tensor others;    // i32 [T]: the token itself where it is not among them, else −1
    Tensor offsets;   // i32 [images + 1]
    Tensor diagonal;  // i32 [images]: −1
    int64_t longest = 0;
    bool any() const { return tokens.defined(); }
  };
  Ahead ahead;  // none: the model has causal attention alone

  bool any() const { return ids.defined(); }
};

struct Batch {
  Tensor ids;                // i32 [T]
  Tensor positions;          // i32 [T], restart at each document if documents are packed
  Tensor targets;            // i32 [T]: token to predict at each position, −1 without loss
  Tensor loss_weight;        // f32 [T]: weight of each token's loss, 0 without loss
  Tensor token_index;        // i64 [T]: global token index, the counter of random numbers
  Tensor document_offsets;   // i32 [documents + 1]: attention does not cross them
  int64_t max_document = 0;  // longest document, in tokens
  double causal_pairs = 0;   // sum over documents of length · (length + 1) / 2: attention's work
  AttentionChunks chunks;

  std::vector<ShiftedTokens> shifted;  // depth 1 first; empty: no further tokens are predicted

  /// Positions of the other context ranks' tokens (nn/context_parallel/layout.h); null without
  /// context parallelism.
  std::shared_ptr<const ContextLayout> context;
  /// The ranks that share the tokens, if these are not the layout's context ranks (hybrid context
  /// parallel); not owned.
  Communicator* context_ranks = nullptr;

  /// Of a model with an encoder or with images: its rows (nn/encoder_rows.h); else null.
  std::shared_ptr<const EncoderRows> encoder;
  /// Of a model with images; `encoder` then has the rows of its vision tower: for each image a
  /// document of its patches.
  BatchImages images;
  /// Of the rows of a vision tower: pixels of each patch, f32 [patches, channels · side²]. In their
  /// `ids` a token in front of an image's patches is 0, and a patch 1.
  Tensor patches;

  /// Whether the cut added tokens of padding (token_index −1) on any rank that shares the rows.
  bool padded = false;

  /// Each tensor rank holds the stream of all tokens, in sequence parallel too: rows of a vision
  /// tower.
  bool whole_stream = false;
  /// The range of tokens whose stream rows this rank holds: all, or under sequence parallel this
  /// tensor rank's part.
  int64_t stream_begin = 0, stream_tokens = 0;

  int64_t tokens() const { return ids.dim(0); }
  /// What routers leave out of their counts and losses: the index of each token of this rank's part
  /// of the stream, where there is padding; else nothing.
  Tensor padding_index() const { return padded ? stream_rows(token_index) : Tensor(); }
  /// The rows of a per-token tensor [T, …] that belong to this rank's part of the stream.
  Tensor stream_rows(const Tensor& per_token) const {
    return per_token.slice(0, stream_begin, stream_tokens);
  }
};

}  // namespace viaduct
