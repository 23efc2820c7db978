#include "nn/moe/taken_rows.h"

#include "nn/moe/wire_format.h"
#include "ops/embedding.h"

namespace viaduct {
namespace {

/// The rows' bytes as codes, which the op copies as they are.
Tensor as_codes(const Tensor& rows) {
  return {rows.storage(),
          DType::e4m3,
          {rows.dim(0), rows.dim(1) * dtype_bytes(rows.dtype())},
          rows.offset_bytes()};
}

void copy_rows(RankContext& context, const Tensor& rows, const Tensor& index, const Tensor& out) {
  if (is_floating(rows.dtype())) return embedding_forward(context.ops, {index, rows, out});
  embedding_forward(context.ops, {index, as_codes(rows), as_codes(out)});
}

}  // namespace

Tensor take_rows(RankContext& context, const Tensor& rows, const Tensor& index, MemoryTag tag) {
  const Tensor out = context.ops.allocate(rows.dtype(), {index.dim(0), rows.dim(1)}, tag);
  copy_rows(context, rows, index, out);
  return out;
}

Operand take_rows(RankContext& context, const Operand& rows, const Tensor& index, MemoryTag tag) {
  const Operand out = wire_room(context, rows, index.dim(0), tag);
  copy_rows(context, rows.values(), index, out.values());
  if (rows.scales()) copy_rows(context, rows.scales(), index, out.scales());
  return out;
}

}  // namespace viaduct
