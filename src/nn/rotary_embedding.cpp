#include "nn/rotary_embedding.h"

#include "base/error.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/rotary.h"

namespace viaduct {

Tensor RotaryEmbedding::apply(OpContext& context, const Tensor& positions, const Tensor& x,
                              MemoryTag tag, bool inverse) const {
  if (table == nullptr) return x;
  if (fused) {
    rotary(context, {x, positions, table->cos, table->sin, inverse, interleaved});
    return x;
  }
  VIADUCT_CHECK(ShapeError, !interleaved,
                "rotary positions composed of other ops: pairs of neighbours are not supported");
  const int64_t tokens = x.dim(0), heads = x.dim(1), half = table->cos.dim(1), rotated = 2 * half;
  if (half == 0) return x;
  const auto of_tokens = [&](const Tensor& values) {
    const Tensor rows =
        context.allocate(table->cos.dtype(), {tokens, half}, MemoryTag::activations);
    embedding_forward(context, {positions, values, rows});
    return rows;
  };
  const Tensor cos = of_tokens(table->cos), sin = of_tokens(table->sin);  // [T, half]
  // out [T, N, D] = x · cos + (−second half | first half) · sin; the opposite sign for the inverse.
  const Tensor turned =
      context.allocate(x.dtype(), {tokens, heads, rotated}, MemoryTag::activations);
  const double sign = inverse ? -1 : 1;
  scale(context, {x.slice(2, half, half), turned.slice(2, 0, half), -sign});
  scale(context, {x.slice(2, 0, half), turned.slice(2, half, half), sign});
  const auto times = [&](const Tensor& values, const Tensor& factors) {
    const Tensor product =
        context.allocate(table->cos.dtype(), {tokens, heads, rotated}, MemoryTag::activations);
    for (const int64_t begin : {int64_t{0}, half})
      multiply(context, {values.slice(2, begin, half), factors, product.slice(2, begin, half)});
    return product;
  };
  const Tensor out = context.allocate(x.dtype(), x.shape(), tag);
  add(context, {times(x, cos), times(turned, sin), out.slice(2, 0, rotated)});
  if (rotated < x.dim(2)) {
    const int64_t rest = x.dim(2) - rotated;
    copy(context, {x.slice(2, rotated, rest), out.slice(2, rotated, rest)});
  }
  return out;
}

}  // namespace viaduct
