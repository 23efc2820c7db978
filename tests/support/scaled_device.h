#pragma once
// The device that the ops of scaled_ops.h run on. It computes on the host; what its products need
// beside their arguments lives in it, and its memory is poisoned.

#include <cstddef>
#include <memory>
#include <vector>

#include "device/device.h"

namespace viaduct::test {

class ScaledDevice final : public Device {
 public:
  explicit ScaledDevice(int threads) : pool_(threads) {}

  DeviceKind kind() const override { return DeviceKind::cpu; }
  ThreadPool& pool() override { return pool_; }
  void wait(int, const Event&) override {}  // compute runs inline
  void copy_from_host(const Tensor& host, const Tensor& device) override;
  void copy_to_host(const Tensor& device, const Tensor& host) override;

  /// At least `bytes` of the device's own memory for one launch, all NaN, 64-byte aligned.
  std::byte* scratch(int64_t bytes);

 protected:
  /// All NaN, in every floating format, before it is written and after it is given back: whoever
  /// reads it then shows.
  void* take(int64_t bytes, MemoryTag tag) override;
  void give(void* data, int64_t bytes) override;

 private:
  ThreadPool pool_;
  Tensor scratch_;
};

std::unique_ptr<Device> make_scaled_device(int threads);

}  // namespace viaduct::test
