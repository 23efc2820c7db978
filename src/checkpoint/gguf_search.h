#pragma once
// The rounding of weights to the quantized blocks of GGUF files: a search for the scales, minimums
// and codes whose values have the least squared distance from the weights.

#include <span>

#include "tensor/gguf_blocks.h"

namespace viaduct {

/// The largest magnitude that is rounded: within it, no scale or minimum is beyond FP16.
inline constexpr float kLargestGgufValue = 65504;

/// The numbers of a block that are near `values`, one for each of its elements, finite and at most
/// kLargestGgufValue in magnitude. The same on every machine.
///
/// Coordinate descent on Σ (value − rounded value)². For a group by itself the codes that are
/// nearest under a scale and an offset, and the least-squares scale and offset of codes, take
/// turns, from a grid of scales; where groups share a scale, the integers of each group are then
/// searched in turn with the block's scale and minimum, both as they are stored.
GgufBlock search_gguf_block(const GgufBlockForm& form, std::span<const float> values);

}  // namespace viaduct
