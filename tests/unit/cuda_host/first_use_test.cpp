// What a GPU does at the first use of code, and when it has no more memory, must not wait for
// operations with other ranks that these begin only later; on the doubles, where such a wait is an
// error.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "base/error.h"
#include "device/cuda/load_modules.h"
#include "unit/cuda_host/nccl_ranks.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kGranule = 64 << 10;  // the double's
constexpr const char* kFile = "some_kernels.cu";

/// Two ranks, of which rank 0 posts a receive, does `work`, and only then has rank 1 send.
void receive_early(const cuda_host::RuntimeSettings& settings, const Main& before,
                   const std::function<void(CudaDevice&)>& work) {
  cuda_host::reset_runtime(settings);
  nccl_double::reset({.seed = settings.seed});
  run_thread_ranks(2, {.timeout_seconds = 30}, [&](std::shared_ptr<Communicator> hosts) {
    use_gpu(hosts->rank());
    const auto world = make_nccl_communicator(hosts, 30);
    const auto device = make_cuda_device();
    world->record_on(device.get());
    world->open_channels({1 - world->rank()}, false);
    before(*device, world);
    const Tensor x = filled(*device, 8, static_cast<float>(world->rank()));
    if (world->rank() == 0) {
      CommHandle received = world->receive(x, 1, Flow::activations);
      work(*device);
      world->host().most(1);
      received.wait();
      EXPECT_EQ(first_of(*device, x), 1);
    } else {
      world->host().most(1);
      world->send(x, 0, Flow::activations).wait();
    }
    device->finish();
  });
}

void launch_code(CudaDevice& device) {
  device.launched(kComputeStream);
  cuda_host::enqueue(
      device.handle(kComputeStream), "kernel", [] {}, kFile);
}

TEST(FirstUse, WaitsForTheDeviceOnce) {
  cuda_host::reset_runtime({.seed = 2, .lazy_loading = true});
  const auto device = make_cuda_device();
  for (int launch = 0; launch < 3; ++launch) launch_code(*device);
  EXPECT_EQ(cuda_host::runtime_counts().first_uses, 1);
}

TEST(FirstUse, OfCodeThatIsNotLoadedWaitsForOtherRanks) {
  const cuda_host::RuntimeSettings lazy{
      .seed = 3, .devices = 2, .patience_seconds = 0.3, .lazy_loading = true};
  const Main nothing = [](CudaDevice&, const std::shared_ptr<Communicator>&) {};
  EXPECT_THAT([&] { receive_early(lazy, nothing, launch_code); },
              ThrowsMessage<std::exception>(
                  AllOf(HasSubstr("the first use of some_kernels.cu waits for the device"),
                        HasSubstr("NCCL receive"))));
  const Main load = [](CudaDevice&, const std::shared_ptr<Communicator>&) {
    load_modules({kFile});
  };
  receive_early(lazy, load, launch_code);
  EXPECT_EQ(cuda_host::runtime_counts().first_uses, 0);
}

/// Memory of freed ranges is unmapped to be used elsewhere.
TEST(FirstUse, ReleaseOfFreeMemoryWaitsForComputeAlone) {
  const cuda_host::RuntimeSettings small{
      .seed = 3, .devices = 2, .memory_bytes = 8 * kGranule, .patience_seconds = 0.3};
  const auto bytes = [](CudaDevice& device, int64_t granules) {
    return device.allocate(DType::u8, {granules * kGranule}, MemoryTag::other);
  };
  std::optional<Tensor> kept;
  const auto fill = [&](CudaDevice& device, const std::shared_ptr<Communicator>& world) {
    if (world->rank() > 0) return;
    const Tensor freed = bytes(device, 3);
    kept = bytes(device, 1);
  };
  receive_early(small, fill, [&](CudaDevice& device) {
    const Tensor large = bytes(device, 5);
    EXPECT_EQ(device.memory().reserved_bytes, 7 * kGranule);
    kept.reset();
  });
}

/// The double's room: an operation that waits for its turn must not be what another rank needs to
/// begin the one that has its place.
TEST(FirstUse, OperationsThatFindNoRoomAreAnError) {
  for (const int room : {1, 2}) {
    const auto run = [&] {
      // In the order of the program: the receive has joined before the sum is called.
      cuda_host::reset_runtime({.seed = 0, .devices = 2, .patience_seconds = 0.3});
      nccl_double::reset({.seed = 4, .resident = room});
      run_thread_ranks(2, {.timeout_seconds = 30}, [&](std::shared_ptr<Communicator> hosts) {
        use_gpu(hosts->rank());
        const auto world = make_nccl_communicator(hosts, 30);
        const auto device = make_cuda_device();
        world->record_on(device.get());
        world->open_channels({1 - world->rank()}, false);
        const Tensor x = filled(*device, 8, 1), sum = filled(*device, 8, 1);
        std::optional<CommHandle> received;
        if (world->rank() == 0) received = world->receive(x, 1, Flow::activations);
        world->all_reduce(sum, ReduceOp::sum).wait_host();
        if (world->rank() == 1) world->send(x, 0, Flow::activations).wait();
        if (received) received->wait();
        device->finish();
      });
    };
    if (room == 1)
      EXPECT_THAT(run, ThrowsMessage<std::exception>(HasSubstr("no room")));
    else
      run();
  }
}

}  // namespace
}  // namespace viaduct
