// dist.high_priority_stream_groups on the doubles: the streams of communication that have the
// highest priority.

#include "comm/stream_priority.h"

#include <gtest/gtest.h>

#include "cuda_host/priority.h"
#include "device/cuda/stream_priority.h"
#include "run/rank_device.h"
#include "unit/cuda_host/nccl_ranks.h"

namespace viaduct {
namespace {

using namespace test;

constexpr int kLowest = 0, kHighest = -5;

int priority(CudaDevice& device, const char* stream) {
  const int number = device.stream(stream);
  device.launched(number);
  return cuda_host::priority_of(device.handle(number));
}

/// The device that a run with this setting makes.
RankDevice device_of(const std::optional<std::vector<std::string>>& groups) {
  cuda_host::reset_runtime({});
  use_gpu(0);
  DistConfig config;
  config.device = DeviceKind::cuda;
  config.high_priority_stream_groups = groups;
  return make_rank_device(config);
}

TEST(CudaStreamPriority, WithoutASettingStreamsBesideComputeGoFirst) {
  const RankDevice rank = device_of(std::nullopt);
  auto& device = dynamic_cast<CudaDevice&>(*rank.device);
  for (const char* stream : {"tp", "dp_cp", "pp.to.1.activations", "offload"})
    EXPECT_EQ(priority(device, stream), kHighest) << stream;
  EXPECT_EQ(priority(device, "compute"), kLowest);
}

TEST(CudaStreamPriority, NamedGroupsGoFirstAlone) {
  const RankDevice rank = device_of(std::vector<std::string>{"tp", "pp"});
  auto& device = dynamic_cast<CudaDevice&>(*rank.device);
  for (const char* stream : {"tp", "tp.group.activations", "pp.to.1.activations", "offload"})
    EXPECT_EQ(priority(device, stream), kHighest) << stream;
  for (const char* stream : {"dp_cp", "cp", "compute"})
    EXPECT_EQ(priority(device, stream), kLowest) << stream;
}

TEST(CudaStreamPriority, IsThatOfTheStreamsThatOperationsRunOn) {
  DistConfig config;
  config.high_priority_stream_groups = std::vector<std::string>{"pp"};
  cuda_host::reset_runtime({.seed = 1, .devices = 2});
  nccl_double::reset({.seed = 1});
  run_thread_ranks(2, {.timeout_seconds = 30}, [&](std::shared_ptr<Communicator> hosts) {
    use_gpu(hosts->rank());
    const auto world = make_nccl_communicator(hosts, 30);
    const auto device = make_cuda_device({}, stream_priority(config));
    const auto dp = world->split({0, 1}, "dp_cp"), pp = world->split({0, 1}, "pp");
    const int other = 1 - pp->rank();
    pp->open_channels({other}, false);
    StepRecord record;
    device->set_record(&record);
    for (const auto& group : {dp, pp}) group->record_on(device.get());
    const Tensor x = filled(*device, 8, 1), y = filled(*device, 8, 0);
    dp->all_reduce(x, ReduceOp::sum).wait();
    auto sent = pp->send(x, other, Flow::activations);
    pp->receive(y, other, Flow::activations).wait();
    sent.wait();
    device->set_record(nullptr);
    int messages = 0, sums = 0;
    for (const CollectiveRecord& one : record.collectives()) {
      const bool first = one.group == "pp";
      ++(first ? messages : sums);
      EXPECT_EQ(cuda_host::priority_of(device->handle(one.stream)), first ? kHighest : kLowest)
          << one.queue;
    }
    EXPECT_EQ(messages, 2);
    EXPECT_EQ(sums, 1);
    device->finish();
  });
}

}  // namespace
}  // namespace viaduct
