#pragma once
// Conversion of an edge's tensors to the formats of a message between stages, and back.

#include "nn/segment.h"

namespace viaduct {

/// The tensors of `set` that `edge` names, rounded to the edge's dtype where it differs.
TensorSet in_formats(OpContext& context, const TensorSet& set, const Edge& edge, MemoryTag tag);

}  // namespace viaduct
