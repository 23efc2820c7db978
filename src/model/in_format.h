#pragma once
// Tensors of an edge in the formats of a message between stages, and back.

#include "nn/segment.h"

namespace viaduct {

/// The tensors of `set` that `edge` names, those that have another dtype there rounded to it.
TensorSet in_formats(OpContext& context, const TensorSet& set, const Edge& edge, MemoryTag tag);

}  // namespace viaduct
