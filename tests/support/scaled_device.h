#pragma once
// The device that the ops of scaled_ops.h run on. It computes on the host, holds the scratch memory
// of its GEMMs, and poisons its memory.

#include <cstddef>
#include <memory>
#include <vector>

#include "device/device.h"

namespace viaduct::test {

/// A device that the ops of scaled_ops.h run on.
class ScaledScratch {
 public:
  virtual ~ScaledScratch() = default;
  /// At least `bytes` of the device's own memory for one launch, all NaN, 64-byte aligned.
  virtual std::byte* scratch(int64_t bytes) = 0;
};

class ScaledDevice final : public Device, public ScaledScratch {
 public:
  explicit ScaledDevice(int threads) : pool_(threads) {}

  DeviceKind kind() const override { return DeviceKind::cpu; }
  ThreadPool& pool() override { return pool_; }
  void copy_from_host(const Tensor& host, const Tensor& device) override;
  void copy_to_host(const Tensor& device, const Tensor& host) override;

  std::byte* scratch(int64_t bytes) override;

 protected:
  /// Memory is NaN, in every floating format, before it is written and after it is freed, so that
  /// such reads are detected.
  void* take(int64_t bytes, MemoryTag tag) override;
  void give(void* data, int64_t bytes) override;

 private:
  ThreadPool pool_;
  Tensor scratch_;
};

std::unique_ptr<Device> make_scaled_device(int threads);

}  // namespace viaduct::test
