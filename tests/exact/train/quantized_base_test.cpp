// Adapters on frozen weights whose products are quantized: the model's own products are those of
// the recipe, frozen weights are quantized once, and nothing frozen changes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "device/recording.h"
#include "support/engine_on_blanks.h"
#include "support/first_step.h"
#include "support/golden.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::EngineOnBlanks;
using test::first_step;
using test::Overrides;
using test::setup_of;
using test::tiny_run;
using test::operator+;

const Overrides kLora{"peft.scheme=lora", "peft.dim=4"};
const Overrides kDora{"peft.scheme=dora", "peft.dim=4", "peft.dropout=0.1"};

/// Sizes that all formats divide, and no epilogue that only products without adapters have.
Overrides run_of(const std::string& recipe) {
  return tiny_run() + Overrides{"model.hidden_size=128", "model.ffn_hidden_size=128",
                                "model.gemm_epilogue_fusion=false", "mixed_precision=" + recipe,
                                "mixed_precision.first_last_layers_bf16=false"};
}

const std::vector<std::string> kRecipes{"bf16_with_fp8_current_scaling_mixed",
                                        "bf16_with_fp8_subchannel_scaling_mixed",
                                        "bf16_with_mxfp8_mixed", "bf16_with_nvfp4_mixed"};
const std::string kDelayed = "bf16_with_fp8_delayed_scaling_mixed";

float loss_of(const Overrides& overrides) {
  return *first_step(setup_of(overrides)).at("loss").data<float>();
}

TEST(QuantizedBase, HasTheForwardOfTheRecipe) {
  const float plain =
      loss_of(tiny_run() + Overrides{"model.hidden_size=128", "model.ffn_hidden_size=128",
                                     "mixed_precision=bf16_mixed"});
  for (const std::string& recipe : kRecipes) {
    SCOPED_TRACE(recipe);
    const float whole = loss_of(run_of(recipe));
    EXPECT_NE(whole, plain);
    EXPECT_EQ(loss_of(run_of(recipe) + kLora), whole);  // B is 0
  }
}

TEST(QuantizedBase, GivesAdaptersGradientsNearThoseOfBf16) {
  for (const Overrides& scheme : {kLora, kDora}) {
    const auto exact = first_step(setup_of(run_of("bf16_mixed") + scheme));
    for (const std::string& recipe : kRecipes) {
      SCOPED_TRACE(recipe);
      const auto found = first_step(setup_of(run_of(recipe) + scheme));
      ASSERT_EQ(found.size(), exact.size());
      const float norm = *found.at("grad_norm").data<float>();
      const float exact_norm = *exact.at("grad_norm").data<float>();
      EXPECT_NE(norm, exact_norm);
      EXPECT_NEAR(norm, exact_norm, 0.2F * exact_norm);
    }
  }
}

std::int64_t conversions(EngineOnBlanks& run) {
  StepRecord record;
  const Recording recording(*run.rank.device, record);
  run.steps(1);
  return std::ranges::count_if(record.ops(),
                               [](const auto& op) { return op.op == "convert_operand"; });
}

TEST(QuantizedBase, IsQuantizedOnceAndNeverChanges) {
  for (const std::string& recipe : kRecipes) {
    for (const Overrides& scheme : {kLora, kDora}) {
      SCOPED_TRACE(recipe + " " + scheme.front());
      EngineOnBlanks run(run_of(recipe) + scheme);
      const auto frozen = run.weights(false), before = run.weights(true);
      const auto first = conversions(run), second = conversions(run);
      EXPECT_GE(first - second, 2 * 4);  // of two blocks
      EXPECT_EQ(conversions(run), second);
      EXPECT_EQ(run.weights(false), frozen);
      EXPECT_NE(run.weights(true), before);
      EXPECT_EQ(dry_run(run.setup).peak.bytes, run.rank.device->memory().peak_bytes);
    }
  }
}

/// All of what a step gives, with the values that it keeps in another way.
void expect_no_bit_changed(const Overrides& run, const Overrides& kept) {
  SCOPED_TRACE(testing::PrintToString(kept));
  const auto expected = first_step(setup_of(run)), found = first_step(setup_of(run + kept));
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected)
    EXPECT_TRUE(test::bytes_of(found.at(name)) == test::bytes_of(tensor)) << name;
}

TEST(QuantizedBase, IsTheSameRecomputedOrOffloaded) {
  for (const std::string& recipe : kRecipes + Overrides{kDelayed}) {
    for (const Overrides& scheme : {kLora, kDora}) {
      SCOPED_TRACE(recipe + " " + scheme.front());
      const Overrides run = run_of(recipe) + scheme + Overrides{"model.mtp_num_layers=1"};
      expect_no_bit_changed(run,
                            {"model.recompute_granularity=full", "model.recompute_method=uniform",
                             "model.recompute_num_layers=1"});
      expect_no_bit_changed(run, {"model.recompute_granularity=selective",
                                  "model.recompute_modules=[core_attn,mlp,layernorm]"});
      expect_no_bit_changed(run, {"model.fine_grained_activation_offloading=true",
                                  "model.offload_modules=[mlp,attn_norm,qkv_linear]",
                                  "model.min_offloaded_tensor_size=0"});
    }
  }
}

/// Frozen weights are quantized anew from the model's, and have no scales in checkpoints.
TEST(QuantizedBase, ResumesBitwise) {
  for (const auto& [recipe, scheme] : {std::pair{kDelayed, kLora}, std::pair{kDelayed, kDora},
                                       std::pair{kRecipes.back(), kLora}}) {
    SCOPED_TRACE(recipe + " " + scheme.front());
    const test::TemporaryFolder folder;
    const auto trained = [&](const std::string& name, const Overrides& more) {
      return test::train_run(run_of(recipe) + scheme +
                             Overrides{"train.train_iters=4", "optimizer.lr=1e-2",
                                       "checkpoint.save=" + (folder / name).string()} +
                             more);
    };
    const auto whole = trained("a", {});
    trained("b", {"train.exit_interval=2"});
    const auto resumed = trained("b", {});
    EXPECT_EQ(resumed.state.step, 4);
    EXPECT_EQ(resumed.tensors, whole.tensors);
  }
}

/// The codes and the scale of each quantized weight, as products of the forward read it.
std::map<std::string, std::string> codes_of(EngineOnBlanks& run) {
  std::map<std::string, std::string> codes;
  for (const Parameter* parameter : run.engine.store().parameters()) {
    if (!parameter->quantized) continue;
    const AcquiredWeight weight(run.engine.store(), *parameter, WeightUse::forward);
    codes[parameter->path] =
        test::bytes_of(weight.operand().values()) + test::bytes_of(weight.operand().scales());
  }
  return codes;
}

TEST(QuantizedBase, OfExpertsNeverChangesEither) {
  for (const std::string& recipe : {kRecipes.front(), kRecipes.back()}) {
    SCOPED_TRACE(recipe);
    const Overrides experts{"model.family=qwen3_moe", "model.num_moe_experts=4",
                            "model.moe_router_topk=2", "model.moe_ffn_hidden_size=64"};
    EngineOnBlanks run(run_of(recipe) + experts + kLora);
    const auto frozen = run.weights(false), before = run.weights(true);
    const auto codes = codes_of(run);
    EXPECT_EQ(std::ranges::count_if(
                  codes,
                  [](const auto& one) { return one.first.find(".experts.") != std::string::npos; }),
              2 * 2);
    run.steps(2);
    EXPECT_EQ(run.weights(false), frozen);
    EXPECT_EQ(codes_of(run), codes);
    EXPECT_NE(run.weights(true), before);
  }
}

/// With delayed scaling the first step of a weight has no history: a scale of 1 would stay.
TEST(QuantizedBase, HasScalesOfItsOwnWithDelayedScaling) {
  EngineOnBlanks current(run_of(kRecipes.front()) + kLora), delayed(run_of(kDelayed) + kLora);
  const auto codes = codes_of(delayed);
  EXPECT_EQ(codes.size(), 2u * 4u);
  EXPECT_EQ(codes, codes_of(current));
  delayed.steps(3);
  EXPECT_EQ(codes_of(delayed), codes);
}

}  // namespace
}  // namespace viaduct
