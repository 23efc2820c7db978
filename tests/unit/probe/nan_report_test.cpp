// The rank where a gradient that is not finite began, after sums over ranks have spread it.

#include "probe/nan_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "comm/world.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "support/instruction_set.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

using test::small_llama;

HostBatch row(bool overflows) {
  HostBatch batch;
  for (int i = 0; i < 8; ++i) {
    batch.ids.push_back(i);
    batch.positions.push_back(i);
    batch.targets.push_back(i + 1);
    batch.loss_weight.push_back(overflows && i == 7 ? INFINITY : 1.0f);
    batch.token_index.push_back(i);
  }
  batch.end_document();
  return batch;
}

/// The report of a step in which the row of data rank `bad` has an infinite gradient.
std::string report(int bad, ShardingStrategy strategy = ShardingStrategy::optim) {
  std::mutex mutex;
  std::string text;
  run_thread_ranks(3, {.timeout_seconds = 60}, [&](std::shared_ptr<Communicator> world) {
    const auto device = make_cpu_device(1);
    const OpTable ops = cpu_ops(test::instruction_set());
    ResolvedRun run;
    run.layers.precision = precision_recipe("bf16_mixed");
    run.positions = 8;
    DdpConfig ddp;
    ddp.bucket_size = 500;
    ddp.data_parallel_sharding_strategy = strategy;
    ddp.resolve(3, false);
    run.store = store_settings(ddp);
    Engine engine(*device, ops, small_llama(), run, ParallelGroups(Mesh({1, 1, 1, 3, 1}), world));
    engine.initialize();
    const HostBatch batch = row(world->rank() == bad);
    engine.begin_step({});
    engine.run_micro_batches(1, [&](int64_t) { return batch; });
    EXPECT_TRUE(engine.finish_step(8).skipped);
    const std::string mine = first_nonfinite(engine, batch);
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(text.empty() || text == mine) << "one report on all ranks";
    text = mine;
  });
  return text;
}

TEST(NanReport, NamesTheRankThatMadeItTheTensorAndItsBucket) {
  for (const int bad : {0, 1, 2})
    EXPECT_EQ(report(bad), "rank " + std::to_string(bad) + ": gradient of head.weight in bucket 0");
}

TEST(NanReport, NamesTheRouterWhoseLogitsAreNotFinite) {
  const auto device = make_cpu_device(1);
  const OpTable ops = cpu_ops(test::instruction_set());
  ResolvedRun run;
  run.layers.precision = precision_recipe("fp32");
  run.positions = 8;
  ModelConfig model = test::tiny_model("mixtral");
  model.vocabulary = 40;
  Engine engine(*device, ops, model, run);
  engine.initialize();
  for (const Parameter* p : engine.store().parameters()) {
    if (p->path != "blocks.1.mlp.router.weight") continue;
    OpContext context{*device, ops};
    fill(context, {engine.store().master(*p), 3e38});
    engine.store().publish_masters(context);
  }
  const HostBatch batch = row(false);
  engine.begin_step({});
  engine.run_micro_batches(1, [&](int64_t) { return batch; });
  EXPECT_TRUE(engine.finish_step(8).skipped);
  EXPECT_EQ(first_nonfinite(engine, batch), "output of layer1; router of layer1 (its logits)");
}

TEST(NanReport, GradientsAreThereWhereWeightsTakeTheirMemory) {
  const auto device = make_cpu_device(1);
  const OpTable ops = cpu_ops(test::instruction_set());
  ResolvedRun run;
  run.layers.precision = precision_recipe("bf16_with_mxfp8_mixed");
  run.layers.precision.stores_codes = true;
  run.positions = 8;
  Engine engine(*device, ops, small_llama(), run);
  engine.initialize();
  const HostBatch batch = row(false);
  engine.begin_step({});
  engine.run_micro_batches(1, [&](int64_t) { return batch; });
  for (const Parameter* p : engine.store().parameters()) {
    if (p->path != "blocks.0.mlp.down.weight") continue;
    EXPECT_TRUE(engine.store().passes_gradients(*p));
    engine.store().main_gradient(*p).data<float>()[3] = NAN;
  }
  EXPECT_TRUE(engine.finish_step(8).skipped);
  EXPECT_EQ(first_nonfinite(engine, batch), "gradient of blocks.0.mlp.down.weight");
}

// A rank's own gradients are gone after the reduction: the rank with the shard names the tensor.
TEST(NanReport, ShardedGradientsAreNamedByTensor) {
  for (const auto strategy :
       {ShardingStrategy::optim_grads, ShardingStrategy::optim_grads_params}) {
    for (const int bad : {0, 2})
      EXPECT_EQ(report(bad, strategy), "rank 0: gradient of head.weight in bucket 0")
          << choice_name(strategy);
  }
}

}  // namespace
}  // namespace viaduct
