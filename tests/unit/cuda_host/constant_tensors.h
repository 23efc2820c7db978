#pragma once
// Small tensors of equal numbers, for tests of what a device does in which order.

#include <algorithm>

#include "device/device.h"

namespace viaduct::test {

constexpr int kCount = 64;  // elements of each tensor

inline Tensor constants(float value, int64_t count = kCount) {
  const Tensor host = host_tensor(DType::f32, {count});
  std::fill_n(host.data<float>(), count, value);
  return host;
}

inline float first_of(Device& device, const Tensor& tensor) {
  const Tensor host = host_tensor(tensor.dtype(), tensor.shape());
  device.copy_to_host(tensor, host);
  return host.data<float>()[0];
}

}  // namespace viaduct::test
