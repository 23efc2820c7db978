#pragma once
// Rows that are taken by number and copied: for exchanges that take no order of rows themselves
// (Communicator::takes_row_order).

#include "nn/context.h"
#include "tensor/operand.h"

namespace viaduct {

/// [N, W] with rows[index[r]] in row r. `rows`: [R, W] of any dtype, contiguous; `index`: i32 [N].
Tensor take_rows(RankContext& context, const Tensor& rows, const Tensor& index, MemoryTag tag);
/// The same of rows as they are sent (nn/moe/wire_format.h).
Operand take_rows(RankContext& context, const Operand& rows, const Tensor& index, MemoryTag tag);

}  // namespace viaduct
