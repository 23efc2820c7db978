#include "support/tensor_bytes.h"

#include "tensor/contiguous_runs.h"

namespace viaduct::test {

Tensor patterned(DType dtype, const Shape& shape, uint64_t seed) {
  Tensor tensor = host_tensor(dtype, shape);
  auto* bytes = static_cast<uint8_t*>(tensor.raw());
  uint64_t state = seed * 0x9E3779B97F4A7C15ull + 1;
  for (int64_t i = 0; i < tensor.bytes(); ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    bytes[i] = static_cast<uint8_t>(state >> 56);
  }
  return tensor;
}

std::string bytes_of(const Tensor& tensor) {
  std::string text;
  for_each_run(tensor, [&](const void* data, size_t bytes) {
    text.append(static_cast<const char*>(data), bytes);
  });
  return text;
}

}  // namespace viaduct::test
