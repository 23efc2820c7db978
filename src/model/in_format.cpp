#include "model/in_format.h"

#include "ops/elementwise.h"

namespace viaduct {

TensorSet in_format(OpContext& context, const TensorSet& set, DType format, MemoryTag tag) {
  if (set.empty() || set.get(kHidden).dtype() == format) return set;
  const Tensor& stream = set.get(kHidden);
  const Tensor rounded = context.allocate(format, stream.shape(), tag);
  copy(context, {stream, rounded});
  return {kHidden, rounded};
}

}  // namespace viaduct
