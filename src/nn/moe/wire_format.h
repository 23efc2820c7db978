#pragma once
// Rows on the wire between ranks that exchange tokens: unconverted, or MXFP8 (E4M3 with a power of
// two for each 32 elements of a row; OCP Microscaling Formats 1.0, section 5.2). A row's scales
// depend only on the row, so that it is rounded alike wherever it is sent from.

#include "nn/context.h"
#include "tensor/operand.h"

namespace viaduct {

/// Rows [R, H] of bf16, f16 or f32 as they are sent.
Operand for_wire(RankContext& context, const Tensor& rows, bool quantized);
/// Room for `rows` rows of the same format as `sent`.
Operand wire_room(RankContext& context, const Operand& sent, int64_t rows, MemoryTag tag);
/// As layers read them: the tensor itself, or the numbers that the codes stand for.
Tensor from_wire(RankContext& context, const Operand& rows, MemoryTag tag);

}  // namespace viaduct
