// A run with adapters: nothing frozen changes by a bit, and has nothing but its weight; saving and
// resuming is bitwise.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "nn/adapter_settings.h"
#include "ops/gemm.h"
#include "optim/muon.h"
#include "support/engine_on_blanks.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::EngineOnBlanks;
using test::Overrides;
using test::tiny_run;
using test::train_run;
using test::operator+;

const Overrides kLora{"peft.scheme=lora", "peft.dim=4", "optimizer.lr=1e-2",
                      "scheduler.lr_warmup_iters=0"};

const Overrides kDora = kLora + Overrides{"peft.scheme=dora", "peft.dropout=0.1"};
const Overrides kTrained = kDora + Overrides{"peft.train=[norm,embed_tokens]"};
const Overrides kFurther =
    kLora + Overrides{"model.mtp_num_layers=1", "peft.target_modules=[all-linear,mtp]"};

TEST(AdapterRuns, ChangeNothingFrozen) {
  for (const Overrides& run_of :
       {kLora + Overrides{"mixed_precision=fp32"}, kLora + Overrides{"mixed_precision=bf16_mixed"},
        kTrained + Overrides{"mixed_precision=bf16_mixed"}}) {
    SCOPED_TRACE(testing::PrintToString(run_of));
    EngineOnBlanks run(tiny_run() + run_of);
    const auto frozen = run.weights(false), before = run.weights(true);
    EXPECT_FALSE(frozen.empty());
    int64_t trained = 0;
    for (const Parameter* parameter : run.engine.store().parameters())
      if (parameter->trained) trained += parameter->shape.elements();
    run.steps(50);
    EXPECT_EQ(run.weights(false), frozen);
    size_t changed = 0;
    for (const auto& [path, bytes] : run.weights(true)) changed += bytes != before.at(path) ? 1 : 0;
    EXPECT_GT(changed, before.size() / 2);  // rows may be such that some have no gradient
    const auto padding = static_cast<int64_t>(64 * before.size() + 256);
    for (const MemoryTag tag : {MemoryTag::main_gradients, MemoryTag::master_weights})
      EXPECT_LT(run.bytes(tag), 4 * (trained + padding));
    EXPECT_LT(run.bytes(MemoryTag::moments), 2 * 4 * (trained + 256));
  }
}

TEST(AdapterRuns, OfExpertsChangeOnlyTheirFactorsWithEveryOptimizer) {
  for (const char* optimizer : {"adam", "muon", "adafactor"}) {
    SCOPED_TRACE(optimizer);
    EngineOnBlanks run(tiny_run("qwen3_moe") + kLora +
                       Overrides{std::string("optimizer.optimizer=") + optimizer,
                                 "model.num_moe_experts=4", "model.moe_router_topk=2",
                                 "peft.train=[lm_head]"});
    const auto frozen = run.weights(false), before = run.weights(true);
    run.steps(3);
    EXPECT_EQ(run.weights(false), frozen);
    const auto after = run.weights(true);
    int of_experts = 0;
    for (const Parameter* parameter : run.engine.store().parameters()) {
      EXPECT_FALSE(parameter->vocabulary && Muon::moves(*parameter)) << parameter->path;
      if (!parameter->trained || !parameter->experts.any() || !parameter->decoupled_rate) continue;
      of_experts += before.at(parameter->path) != after.at(parameter->path) ? 1 : 0;
    }
    EXPECT_GT(of_experts, 0);
  }
}

TEST(AdapterRuns, LearnThroughFrozenLayersOfMultiTokenPrediction) {
  const Overrides with = tiny_run() + kLora + Overrides{"model.mtp_num_layers=1"};
  EngineOnBlanks run(with);
  const auto frozen = run.weights(false);
  const auto is_further = [](const auto& weight) {
    return weight.first.find("multi_token.0") != std::string::npos;
  };
  EXPECT_TRUE(std::ranges::any_of(frozen, is_further));
  EXPECT_FALSE(std::ranges::any_of(run.weights(true), is_further));
  run.steps(3);
  EXPECT_EQ(run.weights(false), frozen);
  const Overrides steps{"train.train_iters=2"};
  const auto trained = train_run(with + steps).tensors;
  EXPECT_EQ(trained, train_run(with + steps).tensors);
  EXPECT_NE(trained,
            train_run(with + steps + Overrides{"model.mtp_loss_scaling_factor=0"}).tensors);
  const auto said = testing::Contains(testing::HasSubstr("multi-token prediction"));
  EXPECT_THAT(run.setup.notes, said);
  EXPECT_THAT(test::setup_of(with + Overrides{"train.skip_train=true"}).notes, testing::Not(said));
}

TEST(AdapterRuns, LearnInLayersOfMultiTokenPrediction) {
  EngineOnBlanks run(tiny_run() + kFurther);
  const auto frozen = run.weights(false), before = run.weights(true);
  const auto of_layer = [](const std::string& path) {
    return path.starts_with("multi_token.0.") || path.starts_with("blocks.2.");
  };
  EXPECT_EQ(std::ranges::count_if(before, [&](const auto& w) { return of_layer(w.first); }),
            5 + 8);  // A of the projection, qkv, output, up and down; B of each matrix
  run.steps(3);
  EXPECT_EQ(run.weights(false), frozen);
  size_t changed = 0;
  for (const auto& [path, bytes] : run.weights(true))
    changed += of_layer(path) && bytes != before.at(path) ? 1 : 0;
  EXPECT_GT(changed, 6u);
  EXPECT_EQ(dry_run(run.setup).peak.bytes, run.rank.device->memory().peak_bytes);
}

/// As in generation, where products of a few rows are as fast as they read their weights.
TEST(AdapterRuns, HavePackedFactorsWhereWeightsArePacked) {
  const Overrides of = tiny_run() + kDora + Overrides{"mixed_precision=bf16_mixed"};
  EngineOnBlanks plain(of + Overrides{"model.packed_weights=false"});
  if (!reads_packed_weights(plain.rank.ops, DType::bf16)) return;
  EngineOnBlanks packed(of + Overrides{"model.packed_weights=true"});
  int factors = 0;
  for (const Parameter* parameter : packed.engine.store().parameters()) {
    if (!parameter->adapter || parameter->shape.rank() != 2) continue;
    const AcquiredWeight weight(packed.engine.store(), *parameter, WeightUse::forward);
    EXPECT_FALSE(weight.operand().form().plain()) << parameter->path;
    ++factors;
  }
  EXPECT_EQ(factors, 2 * (4 + 7));  // of two blocks: q, k and v, and gate and up, have one A
  packed.steps(3), plain.steps(3);
  EXPECT_EQ(packed.weights(true), plain.weights(true));
  EXPECT_EQ(dry_run(packed.setup).peak.bytes, packed.rank.device->memory().peak_bytes);
}

TEST(AdapterRuns, ResumeBitwise) {
  for (const Overrides& kind : {kLora, kTrained, kFurther}) {
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
