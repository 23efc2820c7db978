// A run with adapters: nothing frozen changes by a bit, and has nothing but its weight; saving and
// resuming is bitwise.

#include <gtest/gtest.h>

#include <cstring>

#include "engine/dry_run.h"
#include "engine/engine.h"
#include "nn/adapter_settings.h"
#include "optim/muon.h"
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

const Overrides kDora = kLora + Overrides{"peft.scheme=dora", "peft.dropout=0.1"};
const Overrides kTrained = kDora + Overrides{"peft.train=[norm,embed_tokens]"};

TEST(AdapterRuns, ChangeNothingFrozen) {
  for (const Overrides& run_of :
       {kLora + Overrides{"mixed_precision=fp32"}, kLora + Overrides{"mixed_precision=bf16_mixed"},
        kTrained + Overrides{"mixed_precision=bf16_mixed"}}) {
    SCOPED_TRACE(testing::PrintToString(run_of));
    const RunSetup setup = setup_of(tiny_run() + run_of);
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
    EXPECT_GT(frozen, 0);
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
    const RunSetup setup = setup_of(tiny_run("qwen3_moe") + kLora +
                                    Overrides{std::string("optimizer.optimizer=") + optimizer,
                                              "model.num_moe_experts=4", "model.moe_router_topk=2",
                                              "peft.train=[lm_head]"});
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
      EXPECT_FALSE(parameter->vocabulary && Muon::moves(*parameter)) << parameter->path;
      of_experts += parameter->experts.any() && parameter->decoupled_rate && !same ? 1 : 0;
    }
    EXPECT_GT(of_experts, 0);
  }
}

TEST(AdapterRuns, ResumeBitwise) {
  for (const Overrides& kind : {kLora, kTrained}) {
    SCOPED_TRACE(testing::PrintToString(kind));
    test::TemporaryFolder folder;
    const Overrides run = tiny_run() + kind;
    const auto whole = train_run(
        run + Overrides{"train.train_iters=4", "checkpoint.save=" + (folder / "a").string()});
    train_run(run + Overrides{"train.train_iters=4", "train.exit_interval=2",
                              "checkpoint.save=" + (folder / "b").string()});
    const auto resumed = train_run(
        run + Overrides{"train.train_iters=4", "checkpoint.save=" + (folder / "b").string()});
    EXPECT_EQ(resumed.state.step, 4);
    EXPECT_EQ(resumed.tensors, whole.tensors);
  }
}

TEST(AdapterRuns, MagnitudesHaveTheRateOfB) {
  const Overrides still = tiny_run() + kDora +
                          Overrides{"optimizer.lr=1e-2", "train.train_iters=1",
                                    "optimizer.weight_decay=0", "peft.train=[norm,embed_tokens]"};
  const auto plain = train_run(still).tensors,
             faster = train_run(still + Overrides{"peft.lora_plus_ratio=4"}).tensors;
  int same = 0, changed = 0;
  for (const auto& [name, bytes] : plain) {
    if (name.find('/') != std::string::npos) continue;  // moments
    const bool fast = name.ends_with(kAdapterB) || name.ends_with(kAdapterMagnitude);
    EXPECT_EQ(faster.at(name) != bytes, fast) << name;
    ++(fast ? changed : same);
  }
  EXPECT_GT(changed, 4);
  EXPECT_GT(same, 2);
}

}  // namespace
}  // namespace viaduct
