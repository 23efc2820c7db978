#include "support/scaled_device.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "base/error.h"

namespace viaduct::test {
namespace {

void poison(void* data, int64_t bytes) {
  std::memset(data, 0xff, static_cast<size_t>(bytes));
}

void copy_bytes(const Tensor& from, const Tensor& to) {
  VIADUCT_CHECK(ShapeError,
                from.dtype() == to.dtype() && from.elements() == to.elements() &&
                    from.is_contiguous() && to.is_contiguous(),
                "copy: expected contiguous tensors of one dtype and size, got {} to {}",
                describe(from), describe(to));
  if (from.bytes() > 0) std::memcpy(to.raw(), from.raw(), static_cast<size_t>(from.bytes()));
}

}  // namespace

void ScaledDevice::copy_from_host(const Tensor& host, const Tensor& device) {
  copy_bytes(host, device);
}

void ScaledDevice::copy_to_host(const Tensor& device, const Tensor& host) {
  copy_bytes(device, host);
}

std::byte* ScaledDevice::scratch(int64_t bytes) {
  if (!scratch_ || scratch_.bytes() < bytes + 64) scratch_ = host_tensor(DType::u8, {bytes + 64});
  poison(scratch_.raw(), scratch_.bytes());
  const auto address = reinterpret_cast<uintptr_t>(scratch_.raw());
  return reinterpret_cast<std::byte*>((address + 63) / 64 * 64);
}

void* ScaledDevice::take(int64_t bytes, MemoryTag) {
  void* data = std::aligned_alloc(64, static_cast<size_t>((bytes + 63) / 64 * 64));
  if (data == nullptr) throw std::bad_alloc();
  poison(data, bytes);
  return data;
}

void ScaledDevice::give(void* data, int64_t bytes) {
  poison(data, bytes);
  std::free(data);
}

std::unique_ptr<Device> make_scaled_device(int threads) {
  return std::make_unique<ScaledDevice>(threads);
}

}  // namespace viaduct::test
