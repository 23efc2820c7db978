// A run with adapters: nothing frozen changes by a bit, and has nothing but its weight; saving and
// resuming is bitwise.

#include <gtest/gtest.h>

#include <cstring>

#include "engine/dry_run.h"
#include "engine/engine.h"
#include "run/rank_device.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::Overrides;
using test::setup_of;
using test::tiny_run;
using test::train_run;
using test::operator+;

const Overrides kLora{"peft.scheme=lora", "peft.dim=4", "optimizer.lr=1e-2",
                      "scheduler.lr_warmup_iters=0"};

TEST(AdapterRuns, ChangeNothingFrozen) {
  for (const char* recipe : {"fp32", "bf16_mixed"}) {
    SCOPED_TRACE(recipe);
    const RunSetup setup =
        setup_of(tiny_run() + kLora + Overrides{std::string("mixed_precision=") + recipe});
    const RankDevice rank = make_rank_device(setup.config.dist);
    const ResolvedRun run = resolve_run(setup.config, setup.model);
    Engine engine(*rank.device, rank.ops, setup.model, run);
    engine.initialize();
    std::map<std::string, std::string> before;
    int64_t frozen = 0, trained = 0;
    for (const Parameter* parameter : engine.store().parameters()) {
      before[parameter->path] = bytes_of(engine.store().weight(*parameter));
      (parameter->trained ? trained : frozen) += parameter->shape.elements();
    }
    EXPECT_GT(trained, 0);
    EXPECT_GT(frozen, trained);
    for (int64_t step = 1; step <= 50; ++step) {
      StepInputs inputs;
      inputs.learning_rate = 1e-2;
      inputs.update = step;
      engine.begin_step(inputs);
      run_blank_batches(setup, engine);
      engine.finish_step(1);
    }
    int changed = 0, adapters = 0;
    for (const Parameter* parameter : engine.store().parameters()) {
      const bool same = bytes_of(engine.store().weight(*parameter)) == before[parameter->path];
      if (!parameter->trained) {
        EXPECT_TRUE(same) << parameter->path;
      }
      adapters += parameter->trained ? 1 : 0;
      changed += parameter->trained && !same ? 1 : 0;
    }
    EXPECT_GT(changed, adapters / 2);  // rows may be such that some have no gradient
    const auto& bytes = rank.device->memory().bytes_by_tag;
    for (const MemoryTag tag : {MemoryTag::main_gradients, MemoryTag::master_weights})
      EXPECT_LT(bytes[static_cast<size_t>(tag)], 4 * (trained + 64 * adapters + 256));
    EXPECT_LT(bytes[static_cast<size_t>(MemoryTag::moments)], 2 * 4 * (trained + 256));
  }
}

TEST(AdapterRuns, OfExpertsChangeOnlyTheirFactorsWithEveryOptimizer) {
  for (const char* optimizer : {"adam", "muon", "adafactor"}) {
    SCOPED_TRACE(optimizer);
    const RunSetup setup =
        setup_of(tiny_run("qwen3_moe") + kLora +
                 Overrides{std::string("optimizer.optimizer=") + optimizer,
                           "model.num_moe_experts=4", "model.moe_router_topk=2"});
    const RankDevice rank = make_rank_device(setup.config.dist);
    const ResolvedRun run = resolve_run(setup.config, setup.model);
    Engine engine(*rank.device, rank.ops, setup.model, run);
    engine.initialize();
    const auto weights = [&] {
      std::map<std::string, std::string> all;
      for (const Parameter* parameter : engine.store().parameters())
        all[parameter->path] = bytes_of(engine.store().weight(*parameter));
      return all;
    };
    const auto before = weights();
    for (int64_t step = 1; step <= 3; ++step) {
      StepInputs inputs;
      inputs.learning_rate = 1e-2;
      inputs.update = step;
      engine.begin_step(inputs);
      run_blank_batches(setup, engine);
      engine.finish_step(1);
    }
    const auto after = weights();
    int of_experts = 0;
    for (const Parameter* parameter : engine.store().parameters()) {
      const bool same = before.at(parameter->path) == after.at(parameter->path);
      EXPECT_TRUE(same || parameter->trained) << parameter->path;
      of_experts += parameter->experts.any() && parameter->adapter_b && !same ? 1 : 0;
    }
    EXPECT_GT(of_experts, 0);
  }
}

TEST(AdapterRuns, ResumeBitwise) {
  test::TemporaryFolder folder;
  const Overrides run = tiny_run() + kLora;
  const auto whole = train_run(
      run + Overrides{"train.train_iters=4", "checkpoint.save=" + (folder / "a").string()});
  train_run(run + Overrides{"train.train_iters=4", "train.exit_interval=2",
                            "checkpoint.save=" + (folder / "b").string()});
  const auto resumed = train_run(
      run + Overrides{"train.train_iters=4", "checkpoint.save=" + (folder / "b").string()});
  EXPECT_EQ(resumed.state.step, 4);
  EXPECT_EQ(resumed.tensors, whole.tensors);
}

}  // namespace
}  // namespace viaduct
