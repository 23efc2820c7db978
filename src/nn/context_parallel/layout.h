#pragma once
// What context parallel attention needs to know of a micro-batch besides its own tokens: the
// positions of the other ranks' tokens. Made once when the batch is copied to the device; all
// layers read it.

#include <memory>
#include <vector>

#include "device/device.h"

namespace viaduct {

/// The tokens of a rank in attention: those of the `inner` ranks that exchange tokens for heads;
/// together they are the zigzag pair of chunks of one rank in a ring of `outer` ranks. A rank has T
/// tokens before the exchange and I = inner · T after it. The halves of each document have equal
/// length.
struct AttentionLayout {
  Tensor joined_order;  // i32 [I]: in document order, the row among the inner ranks' rows one after
                        // the other; nothing if inner is 1
  Tensor parted_order;  // i32 [I]: its inverse
  Tensor offsets;       // i32 [documents + 1]: into the I tokens
  Tensor query_index;   // i64 [I]: global token indices
  Tensor key_position;  // i32 [outer, I]: places in their documents of the tokens of each rank of
                        // the ring; nothing if outer is 1
  int64_t tokens = 0;   // I
  int64_t max_document = 0;

  // Every document as two pieces, i32 [2 · documents + 1]: its two halves; the whole and an empty
  // piece; an empty piece and the whole. They select which half of the queries attends to which
  // keys.
  Tensor halves, all_none, none_all;
  double half_pairs = 0;  // Σ over documents of (tokens · tokens / 2)
};

/// The layouts of a rank of a context group, one for each kind of exchange.
struct ContextLayout {
  AttentionLayout ring;    // inner 1, outer cp: p2p
  AttentionLayout heads;   // inner cp, outer 1: a2a
  AttentionLayout levels;  // inner and outer from the configured hierarchy: a2a+p2p
  // all_gather: position of each half of the rank's queries in its document, i32 [2 · documents],
  // for the pieces of `all_none` (first half) and `none_all` (second).
  Tensor first_diagonal, second_diagonal;
  double first_pairs = 0, second_pairs = 0;  // visible pairs, without a window
  std::vector<Tensor> made;  // all of its tensors, in the order in which they are made
};

/// `offsets`: document offsets of this rank's tokens, all of even length; `whole_token_index`:
/// global token indices of the whole micro-batch, cp · T; not read where nothing executes.
/// ShapeError if they do not fit. Tensors that have the shapes of those of `over` are in their
/// memory, as a graph reads it; null: in new memory.
std::shared_ptr<const ContextLayout> make_context_layout(
    Device& device, const std::vector<int32_t>& offsets,
    const std::vector<int64_t>& whole_token_index, int cp, int cp_rank, int inner,
    const ContextLayout* over = nullptr);

}  // namespace viaduct
