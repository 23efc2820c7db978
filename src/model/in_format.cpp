#include "model/in_format.h"

#include "ops/elementwise.h"

namespace viaduct {

TensorSet in_formats(OpContext& context, const TensorSet& set, const Edge& edge, MemoryTag tag) {
  TensorSet result;
  for (const EdgeTensor& tensor : edge) {
    const Operand& value = set.operand(tensor.name);
    if (value.dtype() == tensor.dtype) {
      result.set(tensor.name, value);
      continue;
    }
    const Tensor rounded = context.allocate(tensor.dtype, value.shape(), tag);
    copy(context, {value.tensor(), rounded});
    result.set(tensor.name, rounded);
  }
  return result;
}

}  // namespace viaduct
