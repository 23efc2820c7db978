#include "nn/fp8_exchange.h"

#include "base/error.h"
#include "ops/elementwise.h"
#include "ops/optimizer_state.h"
#include "tensor/state_formats.h"

namespace viaduct {

Fp8Rows allocate_fp8_rows(RankContext& context, int64_t elements) {
  return {context.ops.allocate(DType::e4m3, {elements}, MemoryTag::activations),
          context.ops.allocate(DType::f32, {elements / kStateGroup}, MemoryTag::activations)};
}

Fp8Rows to_fp8_rows(RankContext& context, const Tensor& rows) {
  const int64_t elements = rows.elements();
  VIADUCT_CHECK(ShapeError, elements % kStateGroup == 0,
                "exchange in FP8: {} elements of a part are not a multiple of the {} that share a "
                "scale",
                elements, kStateGroup);
  const Fp8Rows out = allocate_fp8_rows(context, elements);
  store_state(context.ops, {rows.view({elements}), out.codes, out.scales, {}});
  return out;
}

Fp8Rows part_of(const Fp8Rows& rows, int64_t begin, int64_t count) {
  return {rows.codes.slice(0, begin, count),
          rows.scales.slice(0, begin / kStateGroup, count / kStateGroup)};
}

Tensor sum_of_fp8_rows(RankContext& context, const std::vector<Fp8Rows>& parts,
                       const Shape& shape) {
  const auto widened = [&](const Fp8Rows& part) {
    const Tensor values = context.ops.allocate(DType::f32, shape, MemoryTag::activations);
    expand_state(context.ops, {part.codes, part.scales, {}, values.view({shape.elements()})});
    return values;
  };
  const Tensor sum = widened(parts.front());
  for (size_t i = 1; i < parts.size(); ++i) add(context.ops, {sum, widened(parts[i]), sum});
  return sum;
}

}  // namespace viaduct
