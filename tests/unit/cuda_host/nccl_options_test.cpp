// How NCCL's connections are made: blocks and clusters by group, sums in switches, registered
// memory, on the doubles.

#include "comm/nccl_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/nccl/nccl_memory.h"
#include "device/memory_plan.h"
#include "unit/cuda_host/nccl_ranks.h"

namespace viaduct {
namespace {

using namespace test;
using nccl_double::Config;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

/// Ranks of the doubles whose connections have these options.
void run_with(const NcclOptions& options, int version, const Main& main,
              const NcclRankOptions& of_rank = {}) {
  cuda_host::reset_runtime({.seed = 3, .devices = 2});
  nccl_double::reset({.version = version, .seed = 3});
  run_thread_ranks(2, {.timeout_seconds = 30}, [&](std::shared_ptr<Communicator> hosts) {
    use_gpu(hosts->rank());
    const auto world = make_nccl_communicator(hosts, 30, options, of_rank);
    const auto device = make_cuda_device({.poison = true, .plan_memory = nccl_plan_memory()});
    world->record_on(device.get());
    main(*device, world);
    device->finish();
  });
  EXPECT_EQ(nccl_double::live_connections(), 0);
}

constexpr int kNccl = 22809;

TEST(NcclOptions, EachGroupHasItsOwnNumbers) {
  run_with({{"tp", {.min_ctas = 4, .max_ctas = 16, .cga_cluster_size = 2, .net_name = "IB"}},
            {"pp", {.max_ctas = 2}}},
           kNccl, [](CudaDevice& device, const std::shared_ptr<Communicator>& world) {
             const auto tp = world->split({0, 1}, "tp"), cp = world->split({0, 1}, "cp");
             const Tensor x = filled(device, 8, 1);
             tp->record_on(&device);
             tp->all_reduce(x, ReduceOp::sum).wait();
             EXPECT_EQ(first_of(device, x), 2);
           });
  const Config tp{2, 4, 16, 2, std::nullopt, "IB"};
  EXPECT_THAT(nccl_double::configs(), UnorderedElementsAre(tp, tp)) << "of both ranks, tp alone";
}

TEST(NcclOptions, ChannelsOfAGroupAreMadeAlike) {
  run_with({{"pp", {.max_ctas = 2}}}, kNccl,
           [](CudaDevice&, const std::shared_ptr<Communicator>& world) {
             const auto pp = world->split({0, 1}, "pp");
             pp->open_channels({1 - pp->rank()}, false);
           });
  // The group, and two flows in two directions, on two ranks.
  EXPECT_THAT(nccl_double::configs(),
              AllOf(testing::SizeIs(10), testing::Each(Config{.ranks = 2, .max_ctas = 2})));
}

TEST(NcclOptions, SwitchesSumForOneGroup) {
  DistConfig dist;
  dist.use_sharp = true;
  const Main split = [](CudaDevice&, const std::shared_ptr<Communicator>& world) {
    world->split({0, 1}, "dp_cp");
    world->split({0, 1}, "tp");
  };
  run_with(nccl_options(dist), kNccl, split);
  const Config with{.ranks = 2, .collnet = 1};
  EXPECT_THAT(nccl_double::configs(), UnorderedElementsAre(with, with));
  EXPECT_THAT([&] { run_with(nccl_options(dist), 22605, split); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("dist.use_sharp needs NCCL 2.27 or newer, found 2.26"),
                        HasSubstr("expected dist.use_sharp = false"))));
}

TEST(NcclOptions, TheRunsMemoryIsRegisteredWithDataAndTensorParallelGroups) {
  DistConfig dist;
  dist.nccl_ub = true;
  for (const bool planned : {true, false}) {
    const Main sum = [&](CudaDevice& device, const std::shared_ptr<Communicator>& world) {
      if (planned) {
        MemoryPlan plan;
        plan.arena_bytes = 1 << 20;
        device.use_plan(plan);
      }
      const auto dp = world->split({0, 1}, "dp_cp"), tp = world->split({0, 1}, "tp"),
                 cp = world->split({0, 1}, "cp");
      const auto [memory, bytes] = device.planned_memory();
      const Tensor x =
          planned ? Tensor(std::make_shared<Storage>(memory, bytes, nullptr), DType::f32, {8})
                  : filled(device, 8, 1);
      for (const auto& group : {dp, dp, tp, cp}) {
        group->record_on(&device);
        group->all_reduce(x, ReduceOp::sum).wait();
      }
    };
    const auto run = [&] { run_with(nccl_options(dist), kNccl, sum); };
    if (!planned) {
      EXPECT_THAT(run, ThrowsMessage<CommError>(HasSubstr("memory is not planned")));
      continue;
    }
    run();
    EXPECT_EQ(nccl_double::registered().buffers, 4) << "once a rank and group";
    EXPECT_EQ(nccl_double::registered().calls, 6) << "two of dp_cp, one of tp, none of cp";
  }
}

TEST(NcclOptions, BlockingConnectionsDoTheSame) {
  DistConfig dist;
  dist.nccl_blocking = true;
  const Main sum = [](CudaDevice& device, const std::shared_ptr<Communicator>& world) {
    const auto tp = world->split({0, 1}, "tp");
    tp->record_on(&device);
    const Tensor x = filled(device, 8, 1);
    for (int i = 0; i < 10; ++i) tp->all_reduce(x, ReduceOp::sum).wait();
    EXPECT_EQ(first_of(device, x), 1024);
  };
  run_with({}, kNccl, sum, nccl_rank_options(dist));
  EXPECT_THAT(nccl_double::configs(),
              AllOf(testing::SizeIs(4), testing::Each(Config{.ranks = 2, .blocks = true})));
}

/// The double's GPU has four.
TEST(NcclOptions, MultiprocessorsAreSharedOut) {
  DistConfig dist;
  dist.nccl_multiprocessors = 4;
  const NcclRankOptions of_rank = nccl_rank_options(dist);
  const auto split = [](int64_t connections) {
    return Main([=](CudaDevice&, const std::shared_ptr<Communicator>& world) {
      world->expect_connections([&] { return connections; });
      world->split({0, 1}, "tp");
    });
  };
  const auto with = [](int most) { return Config{.ranks = 2, .max_ctas = most}; };
  run_with({}, kNccl, split(1), of_rank);
  EXPECT_THAT(nccl_double::configs(), UnorderedElementsAre(with(1), with(1), with(3), with(3)));
  run_with({{"tp", {.max_ctas = 1}}}, kNccl, split(1), of_rank);
  EXPECT_THAT(nccl_double::configs(), testing::Each(with(1)));
  EXPECT_THAT(
      [&] {
        run_with({{"tp", {.min_ctas = 2}}}, kNccl, split(2), of_rank);
      },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("tp's share is 1 of 4, and 2 are asked for"),
                                       HasSubstr("expected at most 1"))));
  EXPECT_THAT([&] { run_with({}, kNccl, split(4), of_rank); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("4 for 5 connections"), HasSubstr("expected at least 5"))));
  EXPECT_THAT([&] { run_with({}, kNccl, split(1), {.multiprocessors = 5}); },
              ThrowsMessage<ConfigError>(HasSubstr("5, and the GPU has 4; expected at most 4")));
}

/// Ranks that are processes need no access to each other's memory, and have none.
TEST(NcclOptions, RanksOfAProcessNeedAccessToEachOthersMemory) {
  cuda_host::reset_runtime({.seed = 3, .devices = 2});
  nccl_double::reset({.seed = 3});
  const auto run = [] {
    run_thread_ranks(2, {.timeout_seconds = 30}, [](std::shared_ptr<Communicator> hosts) {
      use_gpu(hosts->rank());
      const auto world = make_nccl_communicator(hosts, 30);
      const auto device = make_cuda_device({.peer_access = false});
      world->record_on(device.get());
      world->all_reduce(filled(*device, 8, 1), ReduceOp::sum).wait();
      device->finish();
    });
  };
  EXPECT_THAT(run, ThrowsMessage<CommError>(HasSubstr("cannot access")));
}

}  // namespace
}  // namespace viaduct
