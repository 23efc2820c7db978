#pragma once
// Values that the host makes, and their way to a device. A device that computes nothing has no use
// for them: there a tensor costs the same whatever its size.

#include "device/device.h"

namespace viaduct {

/// A tensor of T with what `fill` writes into an array of its elements, in the memory of `over` if
/// that is a tensor of this shape. Where nothing executes `fill` is not called.
template <class T, class Fill>
Tensor upload_values(Device& device, const Shape& shape, MemoryTag tag, const Tensor& over,
                     Fill&& fill) {
  const bool fits = over.defined() && over.shape() == shape;
  Tensor tensor = fits ? over : device.allocate(dtype_of<T>, shape, tag);
  Tensor host;
  if (device.executes()) {
    host = host_tensor(dtype_of<T>, shape);
    if (host.bytes() > 0) fill(static_cast<T*>(host.raw()));
  }
  device.copy_from_host(host, tensor);
  return tensor;
}

}  // namespace viaduct
