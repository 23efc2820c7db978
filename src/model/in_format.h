#pragma once
// The residual stream in the format of messages between stages, and back.

#include "nn/segment.h"

namespace viaduct {

/// `set` with its stream rounded to `format`; as it is where it has that format or no stream.
TensorSet in_format(OpContext& context, const TensorSet& set, DType format, MemoryTag tag);

}  // namespace viaduct
