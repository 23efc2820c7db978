#pragma once
// The layers that encoder-decoder models have beside those of a decoder: the encoder in front, and
// cross attention in each of the decoder's blocks.

#include <vector>

#include "model/build_block.h"

namespace viaduct {

/// The bias by relative positions of a stack, whose table is `path`.
RelativeBias relative_bias(const BlockMaker& maker, const std::string& path);

/// The bias of the encoder's blocks; none without them.
RelativeBias encoder_bias(const BlockMaker& decoder);

/// Whether what the encoder makes has a gradient (model/frozen_encoder.h).
bool encoded_needs_gradient(const BlockMaker& maker);

/// Whether this rank has a part of the encoder's output between the two halves: where its half has
/// more tensor ranks than the other one, and each of them the whole stream (nn/encoded_parts.h).
bool encoded_in_parts(const BlockMaker& maker);

/// The layers `held` of the encoder, for a decoder that `decoder` makes: embedding, blocks (with
/// `relative`) and final norm; those of a frozen one run forward alone. `tokens`: the table that
/// both look up; null where it is not held.
void build_encoder(const BlockMaker& decoder, const EncoderChunk& held,
                   const ParameterPointer& tokens, const RelativeBias& relative,
                   const RotaryTables& rotary, std::vector<Layer>& layers);

std::unique_ptr<Segment> build_cross_attention(const BlockMaker& maker, int64_t layer);

}  // namespace viaduct
