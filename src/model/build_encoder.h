#pragma once
// The layers that encoder-decoder models have beside those of a decoder: the encoder in front, and
// cross attention in each of the decoder's blocks.

#include <vector>

#include "model/build_block.h"

namespace viaduct {

/// The bias by relative positions of a stack, whose table is `path`.
RelativeBias relative_bias(const BlockMaker& maker, const std::string& path);

/// Embedding, blocks and final norm of the encoder, for a decoder that `decoder` makes; `tokens` is
/// the table that both look up.
void build_encoder(const BlockMaker& decoder, const ParameterPointer& tokens,
                   const RotaryTables& rotary, std::vector<Layer>& layers);

std::unique_ptr<Segment> build_cross_attention(const BlockMaker& maker, int64_t layer);

}  // namespace viaduct
