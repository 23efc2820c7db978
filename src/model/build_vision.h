#pragma once
// The layers of a model with images in front of its token embedding: patches, the vision tower's
// blocks, and the projector; on the decoder's first pipeline stage or on stages of their own.

#include <vector>

#include "model/build_block.h"

namespace viaduct {

/// What a chunk holds of the tower, for a text model that `text` makes. ConfigError listing the
/// sizes of tower and projector that the tensor axis does not divide.
void build_vision(const BlockMaker& text, const EncoderChunk& held, std::vector<Layer>& layers);

/// What the chunk with the token embedding does with the projector's output.
void build_image_gather(const BlockMaker& text, std::vector<Layer>& layers);

/// What leaves a chunk that ends in the tower: the projector's output, or the stream and the
/// features that are read before. `split_parts`: as ModelPlace.
Edge edge_behind_tower(const ModelConfig& text, const EncoderChunk& held, int split_parts,
                       const RankContext& context, const Batch& batch);

}  // namespace viaduct
