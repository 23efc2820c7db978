// The sim device: a rank that never computes and never waits. Tensors have sizes and tags but no
// bytes behind them.

#include <cstring>

#include "device/device.h"
#include "device/launch_groups.h"

namespace viaduct {
namespace {

/// Groups are in the record as a GPU's are once their graphs are captured. Ops of side streams
/// inside a group (sums of shards) count as part of it.
class SimDevice final : public Device, public LaunchGroups {
 public:
  explicit SimDevice(bool side_streams) : side_streams_(side_streams) {}
  ~SimDevice() override { release_held(); }

  DeviceKind kind() const override { return DeviceKind::sim; }
  ThreadPool& pool() override { return pool_; }
  bool has_side_streams() const override { return side_streams_; }
  void wait_host(const Event&) override { end_part(); }
  void copy_from_host(const Tensor&, const Tensor&) override { end_part(); }
  void copy_to_host(const Tensor&, const Tensor& host) override {
    end_part();
    if (host.bytes() > 0) std::memset(host.raw(), 0, static_cast<size_t>(host.bytes()));
  }
  void copy(const Tensor&, const Tensor&, int) override { end_part(); }

  void begin_step(bool) override {}
  void begin_group(bool first_part) override {
    first_part_ = first_part;
    if (group_ || record() == nullptr) return;
    group_ = true;
    begin_part();
  }
  void end_group() override {
    end_part();
    drop_group();
  }
  void drop_group() noexcept override {
    if (group_ && record() != nullptr) record()->set_in_graph(false);
    group_ = false;
  }

 protected:
  void* take(int64_t, MemoryTag) override { return nullptr; }
  void give(void*, int64_t) override {}
  void enqueue_wait(int, const Event&) override { end_part(); }  // the record has the edge

 private:
  void begin_part() {
    first_op_ = record()->ops().size();
    record()->set_in_graph(true);
  }
  void end_part() {
    if (!group_ || record() == nullptr) return;
    int launches = 0;
    for (size_t i = first_op_; i < record()->ops().size(); ++i)
      launches += record()->ops()[i].launches;
    if (launches == 0) return;
    record()->set_in_graph(false);
    const bool graph = launches > 1;
    record()->op(part_launch(record_event(kComputeStream).position, graph, 1));
    if (first_part_) group_ = false;
    if (group_) begin_part();
  }

  bool side_streams_;
  ThreadPool pool_{1};
  bool group_ = false, first_part_ = false;
  size_t first_op_ = 0;  // of the group's part, in the record
};

}  // namespace

std::unique_ptr<Device> make_sim_device(bool side_streams) {
  return std::make_unique<SimDevice>(side_streams);
}

}  // namespace viaduct
