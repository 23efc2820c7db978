// Frozen parameters in a store: weights and nothing else, whole on each rank or shards.

#include <gtest/gtest.h>

#include <optional>

#include "base/error.h"
#include "comm/world.h"
#include "device/recording.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "sharding/parameter_store.h"
#include "support/instruction_set.h"

namespace viaduct {
namespace {

/// One of two data-parallel ranks.
struct Rank {
  explicit Rank(const std::shared_ptr<Communicator>& world) {
    world->record_on(device.get());
    groups.emplace(Mesh({1, 1, 1, 2, 1}), world);
  }
  int64_t bytes(MemoryTag tag) const {
    return device->memory().bytes_by_tag[static_cast<size_t>(tag)];
  }

  std::unique_ptr<Device> device = make_cpu_device(1);
  OpTable ops = cpu_ops(test::instruction_set());
  OpContext context{*device, ops};
  std::optional<ParallelGroups> groups;
};

TEST(FrozenParameters, HaveAWeightAndNothingElse) {
  run_thread_ranks(2, {.timeout_seconds = 60}, [&](std::shared_ptr<Communicator> world) {
    Rank rank(world);
    Parameter frozen, trained, vector;
    frozen.path = "frozen", frozen.shape = {64, 32}, frozen.trained = false;
    vector.path = "vector", vector.shape = {32}, vector.trained = false;
    vector.weight_gradient = false;
    trained.path = "trained", trained.shape = {64, 4};
    ParameterStore store(*rank.device, precision_recipe("bf16_mixed"),
                         {{&frozen, &trained, &vector}}, {.overlap_grad_reduce = true},
                         *rank.groups);
    // Half of each bucket's masters are this rank's.
    EXPECT_EQ(rank.bytes(MemoryTag::main_gradients), 4 * trained.shape.elements());
    EXPECT_EQ(rank.bytes(MemoryTag::master_weights), 4 * trained.shape.elements() / 2);
    EXPECT_EQ(store.frozen_runs().size(), 2u);
    ASSERT_EQ(store.shard_runs().size(), 1u);
    EXPECT_EQ(store.run_of(frozen), nullptr);
    EXPECT_FALSE(store.main_gradient(frozen).defined());

    for (const ShardRun& run : store.frozen_runs()) {
      EXPECT_EQ(run.range.size(), run.parameter->shape.elements());
      fill(rank.context, {run.master, 3});
    }
    for (const ShardRun& run : store.shard_runs()) fill(rank.context, {run.master, 1});
    store.publish_masters(rank.context);
    StepRecord record;
    rank.device->set_record(&record);
    for (int step = 0; step < 2; ++step) {
      store.begin_step(rank.context);
      store.expect_backwards(1);
      EXPECT_THROW(store.gradient(frozen), ShapeError);
      fill(rank.context, {store.gradient(trained).tensor, 1});
      store.done(trained);
      store.finish_gradients(rank.context);
      EXPECT_EQ(store.shard_runs().front().gradient.data<float>()[0], 2);
      store.advance_generation();
      store.weights_written();
      store.finish_gathers();
    }
    rank.device->set_record(nullptr);
    // What ranks exchange is the trained parameter's gradient and weight.
    EXPECT_FALSE(record.collectives().empty());
    for (const CollectiveRecord& one : record.collectives())
      EXPECT_LE(one.bytes, 4 * trained.shape.elements());
    const AcquiredWeight weight(store, frozen, WeightUse::forward);
    EXPECT_EQ(static_cast<float>(weight.tensor().data<bfloat16>()[0]), 3);
  });
}

TEST(FrozenParameters, AreShardsWhereWeightsAre) {
  run_thread_ranks(2, {.timeout_seconds = 60}, [&](std::shared_ptr<Communicator> world) {
    Rank rank(world);
    Parameter frozen, trained;
    frozen.path = "frozen", frozen.shape = {64, 32}, frozen.trained = false;
    trained.path = "trained", trained.shape = {64, 4};
    const std::vector<ParameterUse> uses{&frozen, &trained};
    ParameterStore store(*rank.device, precision_recipe("fp32"), {uses},
                         {.shard_gradients = true, .shard_weights = true}, *rank.groups);
    const int64_t of_frozen = frozen.shape.elements(), of_trained = trained.shape.elements();
    EXPECT_EQ(rank.bytes(MemoryTag::weights), 4 * (of_frozen + of_trained) / 2);
    EXPECT_EQ(rank.bytes(MemoryTag::main_gradients), 4 * of_trained / 2);
    ASSERT_EQ(store.frozen_runs().size(), 1u);
    EXPECT_EQ(store.frozen_runs().front().range.size(), of_frozen / 2);
    // Each rank writes its half.
    fill(rank.context, {store.frozen_runs().front().master, 3.0 + world->rank()});
    for (const ShardRun& run : store.shard_runs()) fill(rank.context, {run.master, 1});
    store.publish_masters(rank.context);
    for (int step = 0; step < 2; ++step) {
      store.begin_step(rank.context);
      EXPECT_THROW(store.gradient(frozen), ShapeError);
      fill(rank.context, {store.gradient(trained).tensor, 1});
      store.done(trained);
      store.finish_gradients(rank.context);
      EXPECT_EQ(store.shard_runs().front().gradient.data<float>()[0], 2);
      store.advance_generation();
      store.weights_written();
      const AcquiredWeight weight(store, frozen, WeightUse::forward);
      const float* values = weight.tensor().data<float>();
      EXPECT_EQ(values[0], 3);
      EXPECT_EQ(values[of_frozen - 1], 4);
    }
  });
}

}  // namespace
}  // namespace viaduct
