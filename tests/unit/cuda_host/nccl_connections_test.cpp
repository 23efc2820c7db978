// Connections with settings of their own, and symmetric memory, on the doubles: what the library is
// told, which connection carries an operation, and what happens where memory cannot be symmetric.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/comm_group.h"
#include "comm/nccl/nccl_memory.h"
#include "comm/nccl_options.h"
#include "device/memory_plan.h"
#include "unit/cuda_host/nccl_ranks.h"

namespace viaduct {
namespace {

using namespace test;
using nccl_double::Config;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::ThrowsMessage;

constexpr int kRanks = 2;
constexpr int kNcclVersion = 22809;

struct Setting {
  NcclOptions options = {};
  int version = kNcclVersion;
  bool symmetric = true;                   // GPUs can map each other's memory
  bool memory_of_nccl = false;             // the plan's
  int ignoring_device = -1;                // of registrations
  std::array<int64_t, kRanks> plans = {};  // bytes of the plan of each rank; 0: none
};

void run_with(const Setting& setting, const Main& main) {
  cuda_host::reset_runtime({.seed = 3, .devices = kRanks});
  nccl_double::reset({.version = setting.version,
                      .symmetric = setting.symmetric,
                      .seed = 3,
                      .ignoring_device = setting.ignoring_device});
  run_thread_ranks(kRanks, {.timeout_seconds = 30}, [&](std::shared_ptr<Communicator> hosts) {
    use_gpu(hosts->rank());
    const auto world = make_nccl_communicator(hosts, 30, setting.options);
    CudaDeviceSettings of_device{.poison = true};
    if (setting.memory_of_nccl) of_device.plan_memory = nccl_plan_memory();
    const auto device = make_cuda_device(of_device);
    world->record_on(device.get());
    if (const int64_t bytes = setting.plans[static_cast<size_t>(hosts->rank())]; bytes > 0) {
      MemoryPlan plan;
      plan.arena_bytes = bytes;
      device->use_plan(plan);
    }
    main(*device, world);
    device->finish();
  });
  EXPECT_EQ(nccl_double::live_connections(), 0);
}

Config with_ctas(int count, std::optional<int> cluster = {}) {
  return {.ranks = kRanks, .min_ctas = count, .max_ctas = count, .cga_cluster_size = cluster};
}

TEST(NcclConnections, AnOperationTakesTheOneThatItNames) {
  const ConnectionSettings two{2}, three{3, 2};
  run_with({}, [&](CudaDevice& device, const std::shared_ptr<Communicator>& world) {
    const auto tp = world->split({0, 1}, "tp");
    tp->open_channels({}, true);
    tp->open_connections({{two, true}, {three, false, true, false}});
    tp->record_on(&device);
    const Tensor x = filled(device, 4, 1), all = filled(device, 8, 0), mine = filled(device, 4, 0);
    tp->all_gather(x, all, two).wait();
    tp->reduce_scatter(all, mine, ReduceOp::sum, two).wait();
    EXPECT_EQ(first_of(device, mine), 2);
    tp->all_reduce(mine, ReduceOp::sum).wait();
    EXPECT_EQ(first_of(device, mine), 4);
    CommGroup ring(*tp, three);
    const int other = 1 - tp->rank();
    ring.send(mine, other, Flow::activations);
    ring.receive(x, other, Flow::activations);
    ring.start().wait();
    EXPECT_EQ(first_of(device, x), 4);
    EXPECT_THAT([&] { tp->all_gather(x, all, three); },
                ThrowsMessage<CommError>(HasSubstr("was opened for messages alone")));
    EXPECT_THAT([&] { tp->all_gather(x, all, ConnectionSettings{1}); },
                ThrowsMessage<CommError>(HasSubstr("no connection with its settings was opened")));
  });
  EXPECT_THAT(nccl_double::calls_with(with_ctas(2)),
              ElementsAre(Pair("all_gather", 2), Pair("reduce_scatter", 2)));
  EXPECT_THAT(nccl_double::calls_with(with_ctas(3, 2)),
              ElementsAre(Pair("receive", 2), Pair("send", 2)));
  EXPECT_EQ(nccl_double::calls_with({.ranks = kRanks}).at("all_reduce"), 2);
  EXPECT_EQ(nccl_double::configs().size(), 4u) << "one for each settings on each rank";
}

TEST(NcclConnections, KeepTheOtherOptionsOfTheirGroup) {
  const ConnectionSettings two{2};
  run_with({.options = {{"tp", {.min_ctas = 4, .max_ctas = 16, .net_name = "IB"}}}},
           [&](CudaDevice&, const std::shared_ptr<Communicator>& world) {
             world->split({0, 1}, "tp")->open_connections({{two, true}});
           });
  Config own = with_ctas(2);
  own.network = "IB";
  EXPECT_THAT(nccl_double::configs(), testing::Contains(own).Times(kRanks));
}

TEST(NcclConnections, AGpuHasAtLeastTheirMultiprocessors) {
  EXPECT_THAT(
      [] {
        run_with({}, [](CudaDevice&, const std::shared_ptr<Communicator>& world) {
          world->split({0, 1}, "tp")->open_connections({{ConnectionSettings{5}, true}});
        });
      },
      ThrowsMessage<ConfigError>(
          AllOf(HasSubstr("comm_overlap.num_sm: 5"), HasSubstr("expected at most 4"))));
}

TEST(NcclConnections, CopyEnginesAreAPolicy) {
  const ConnectionSettings copies{0, 0, true};
  const Main open = [&](CudaDevice&, const std::shared_ptr<Communicator>& world) {
    world->split({0, 1}, "tp")->open_connections({{copies, true}});
  };
  run_with({}, open);
  const Config zero{.ranks = kRanks, .policy = 2};
  EXPECT_THAT(nccl_double::configs(), ElementsAre(zero, zero));
  EXPECT_THAT(
      [&] { run_with({.version = 22705}, open); },
      ThrowsMessage<ConfigError>(HasSubstr("comm_overlap.use_ce needs NCCL 2.28 or newer")));
}

// Symmetric memory.

constexpr int64_t kPlan = 1 << 16;

/// Sums and gathers over `tp` and over its own connection, in place at equal places of the plan.
void use_plan_memory(CudaDevice& device, const std::shared_ptr<Communicator>& world) {
  const auto tp = world->split({0, 1}, "tp");
  tp->open_connections({{ConnectionSettings{2}, true}});
  tp->record_on(&device);
  const auto [memory, bytes] = device.planned_memory();
  const Tensor all(std::make_shared<Storage>(memory, bytes, nullptr), DType::f32, {8});
  const Tensor mine = all.slice(0, 4 * tp->rank(), 4);
  device.copy_from_host(constants(1, 4), mine);
  tp->all_gather(mine, all, ConnectionSettings{2}).wait();
  tp->all_reduce(all, ReduceOp::sum).wait();
  EXPECT_EQ(first_of(device, all), 2);
}

NcclOptions registering(bool symmetric) {
  DistConfig dist;
  dist.nccl_ub = true;
  dist.symmetric_memory = symmetric;
  return nccl_options(dist);
}

TEST(SymmetricMemory, IsAWindowOfEachConnection) {
  run_with({.options = registering(true), .memory_of_nccl = true, .plans = {kPlan, kPlan}},
           use_plan_memory);
  EXPECT_EQ(nccl_double::registered().windows, 4) << "of the group, and of its own connection";
  EXPECT_EQ(nccl_double::registered().calls_in_windows, 4);
  EXPECT_EQ(nccl_double::registered().buffers, 0);
}

TEST(SymmetricMemory, IsRegisteredOtherwiseWhereItCannotBe) {
  const Setting symmetric{
      .options = registering(true), .memory_of_nccl = true, .plans = {kPlan, kPlan}};
  std::map<std::string, Setting> settings;
  settings["switched off"] = symmetric;
  settings["switched off"].options = registering(false);
  settings["plans differ"] = symmetric;
  settings["plans differ"].plans = {kPlan, 2 * kPlan};
  settings["GPUs without it"] = symmetric;
  settings["GPUs without it"].symmetric = false;
  settings["older NCCL"] = symmetric;
  settings["older NCCL"].version = 22605;
  for (const auto& [name, setting] : settings) {
    SCOPED_TRACE(name);
    run_with(setting, use_plan_memory);
    EXPECT_EQ(nccl_double::registered().windows, 0);
    EXPECT_EQ(nccl_double::registered().buffers, 4);
    EXPECT_EQ(nccl_double::registered().calls, 4);
  }
}

TEST(RegisteredMemory, IsNcclsOwnOrIgnored) {
  Setting setting{.options = registering(false), .plans = {kPlan, kPlan}};
  testing::internal::CaptureStderr();
  run_with(setting, use_plan_memory);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("NCCL ignores the registration of memory with tp"));
  EXPECT_EQ(nccl_double::registered().buffers, 0) << "memory of cudaMalloc";
}

TEST(RegisteredMemory, IsTheSameOnAllRanksOrAnError) {
  const Setting setting{.options = registering(false),
                        .memory_of_nccl = true,
                        .ignoring_device = 1,
                        .plans = {kPlan, kPlan}};
  EXPECT_THAT([&] { run_with(setting, use_plan_memory); },
              ThrowsMessage<CommError>(
                  AllOf(HasSubstr("the memory of rank 0 of tp is registered, that of rank 1 is not "
                                  "registered"),
                        HasSubstr("expected the same on all ranks"))));
}

TEST(SymmetricMemory, PlansAreEqualIfAllTheirPlacesAre) {
  MemoryPlan plan;
  plan.arena_bytes = kPlan;
  plan.resident = {{MemoryTag::weights, 64, 0}};
  plan.sequences[0] = {{MemoryTag::weights, 64, kResident}, {MemoryTag::saved, 128, 64}};
  MemoryPlan other = plan;
  EXPECT_EQ(fingerprint_of(plan), fingerprint_of(other));
  other.sequences[0][1].offset = 128;
  EXPECT_NE(fingerprint_of(plan), fingerprint_of(other));
  other = plan;
  std::swap(other.sequences[0], other.sequences[1]);
  EXPECT_NE(fingerprint_of(plan), fingerprint_of(other));
  other = plan;
  other.resident[0].bytes = 32;
  EXPECT_EQ(fingerprint_of(plan), fingerprint_of(other)) << "a rank may have less of something";
}

}  // namespace
}  // namespace viaduct
