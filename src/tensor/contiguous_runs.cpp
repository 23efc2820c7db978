#include "tensor/contiguous_runs.h"

namespace viaduct {

void for_each_run(const Tensor& tensor, FunctionRef<void(const void* data, size_t bytes)> write) {
  if (tensor.elements() == 0) return;
  if (tensor.is_contiguous()) {
    write(tensor.raw(), static_cast<size_t>(tensor.bytes()));
    return;
  }
  for (int64_t i = 0; i < tensor.dim(0); ++i) for_each_run(tensor.select(i), write);
}

}  // namespace viaduct
