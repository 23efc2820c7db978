#include "nn/moe/wire_format.h"

#include "ops/convert_operand.h"
#include "ops/elementwise.h"

namespace viaduct {
namespace {

const OperandForm kMxRows{.orientation = Orientation::row_wise,
                          .element = DType::e4m3,
                          .scales = ScaleForm{DType::e8m0, {1, 32}}};

}  // namespace

Operand for_wire(RankContext& context, const Tensor& rows, bool quantized) {
  if (!quantized) return rows;
  return operand_in(context.ops, rows, kMxRows, MemoryTag::activations);
}

Operand wire_room(RankContext& context, const Operand& sent, int64_t rows, MemoryTag tag) {
  return allocate_operand(context.ops, sent.form(), sent.dtype(), {rows, sent.dim(1)}, tag);
}

Tensor from_wire(RankContext& context, const Operand& rows, MemoryTag tag) {
  if (rows.form().plain()) return rows.tensor();
  const bool direct = rows.dtype() == DType::bf16;
  const Tensor wide =
      context.ops.allocate(DType::bf16, rows.shape(), direct ? tag : MemoryTag::activations);
  expand_operand(context.ops, {rows, wide});
  if (direct) return wide;
  const Tensor out = context.ops.allocate(rows.dtype(), rows.shape(), tag);
  copy(context.ops, {wide, out});
  return out;
}

}  // namespace viaduct
