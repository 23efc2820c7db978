// The sim device: a rank that never computes and never waits. Tensors have sizes and tags but no
// bytes behind them.

#include <cstring>

#include "device/device.h"

namespace viaduct {
namespace {

class SimDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::sim; }
  ThreadPool& pool() override { return pool_; }
  void wait(int, const Event&) override {}
  void copy_from_host(const Tensor&, const Tensor&) override {}
  void copy_to_host(const Tensor&, const Tensor& host) override {
    if (host.bytes() > 0) std::memset(host.raw(), 0, static_cast<size_t>(host.bytes()));
  }

 protected:
  void* take(int64_t, MemoryTag) override { return nullptr; }
  void give(void*, int64_t) override {}

 private:
  ThreadPool pool_{1};
};

}  // namespace

std::unique_ptr<Device> make_sim_device() {
  return std::make_unique<SimDevice>();
}

}  // namespace viaduct
