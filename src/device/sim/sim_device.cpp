// The sim device: a rank that never computes and never waits. Tensors have sizes and tags but no
// bytes behind them.

#include <cstring>

#include "device/device.h"

namespace viaduct {
namespace {

class SimDevice final : public Device {
 public:
  explicit SimDevice(bool side_streams) : side_streams_(side_streams) {}
  ~SimDevice() override { release_held(); }

  DeviceKind kind() const override { return DeviceKind::sim; }
  ThreadPool& pool() override { return pool_; }
  bool has_side_streams() const override { return side_streams_; }
  void copy_from_host(const Tensor&, const Tensor&) override {}
  void copy_to_host(const Tensor&, const Tensor& host) override {
    if (host.bytes() > 0) std::memset(host.raw(), 0, static_cast<size_t>(host.bytes()));
  }
  void copy(const Tensor&, const Tensor&, int) override {}

 protected:
  void* take(int64_t, MemoryTag) override { return nullptr; }
  void give(void*, int64_t) override {}
  void enqueue_wait(int, const Event&) override {}  // the record has the edge

 private:
  bool side_streams_;
  ThreadPool pool_{1};
};

}  // namespace

std::unique_ptr<Device> make_sim_device(bool side_streams) {
  return std::make_unique<SimDevice>(side_streams);
}

}  // namespace viaduct
