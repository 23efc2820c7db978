// Offloading saved tensors between forward and backward does not change the bits of loss and
// gradients, in many layouts, with copies at seeded later points and poisoned memory.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "support/later_memory.h"
#include "support/saved_bytes.h"
#include "support/scaled_device.h"
#include "support/tensor_layouts.h"

namespace viaduct {
namespace {

using test::LayoutRun;
using test::TensorOutcome;
using test::TensorRun;

/// The outcome with this policy, over poisoned memory.
TensorOutcome offloaded(TensorRun run, const SavedPolicy& policy, uint64_t seed) {
  run.saved_policy = policy;
  run.device = test::make_scaled_device;
  run.second_memory = [seed] { return std::make_unique<test::LaterMemory>(seed); };
  return test::run_tensor_ranks(run);
}

SavedPolicy all_units(int64_t blocks, UnitPolicy what) {
  SavedPolicy policy;
  for (int64_t block = 0; block < blocks; ++block) {
    for (const std::string_view unit : kUnits) policy.set(block, unit, what);
  }
  return policy;
}

TEST(Offload, OneUnitAtATimeLeavesWithItsBytesAndChangesNoBit) {
  for (const char* name : {"llama", "gpt2"}) {
    auto runs = test::layouts(test::layout_model(name), "bf16_mixed");
    if (!test::all_policies()) runs = {runs[0], runs[2]};
    for (const LayoutRun& layout : runs) {
      const TensorOutcome kept = test::run_tensor_ranks(layout.run);
      const test::SavedBytes table(layout.run);
      for (int64_t block = 0; block < 2; ++block) {
        for (const std::string_view unit : kUnits) {
          SCOPED_TRACE(fmt::format("{} {} block {} {}", name, layout.name, block, unit));
          SavedPolicy policy;
          policy.set(block, unit, UnitPolicy::offload);
          const TensorOutcome outcome = offloaded(layout.run, policy, 7);
          test::expect_same_bits(outcome, kept);
          EXPECT_EQ(kept.saved_bytes - outcome.saved_bytes, table.offloaded(unit));
          EXPECT_EQ(outcome.saved_tag_bytes, outcome.saved_bytes) << "by tag, and by the store";
        }
      }
      SavedPolicy both;  // which save the same storage
      both.set(1, unit::core_attn, UnitPolicy::offload);
      both.set(1, unit::attn_proj, UnitPolicy::offload);
      EXPECT_EQ(kept.saved_bytes - offloaded(layout.run, both, 7).saved_bytes,
                table.offloaded(unit::core_attn) + table.attended());
    }
  }
}

// Only the statistics of rows remain of the blocks.
TEST(Offload, EverythingOnEveryLayout) {
  for (const char* name : {"llama", "qwen3", "gemma2", "gpt2"}) {
    for (const LayoutRun& layout : test::layouts(test::layout_model(name), "bf16_mixed")) {
      const TensorOutcome kept = test::run_tensor_ranks(layout.run);
      const test::SavedBytes table(layout.run);
      for (const uint64_t seed : {1, 2}) {
        SCOPED_TRACE(fmt::format("{} {} seed {}", name, layout.name, seed));
        const TensorOutcome outcome =
            offloaded(layout.run, all_units(2, UnitPolicy::offload), seed);
        test::expect_same_bits(outcome, kept);
        EXPECT_EQ(kept.saved_bytes - outcome.saved_bytes, 2 * (table.block() - table.statistics()));
      }
    }
  }
}

// Kept, recomputed and offloaded in any combination, including whole layers.
TEST(Offload, AnyMixtureOfPolicies) {
  std::mt19937 random(15);
  for (const char* name : {"llama", "qwen3", "gemma2", "gpt2"}) {
    for (const LayoutRun& layout :
         test::layouts(test::layout_model(name, 3), random() % 2 == 0 ? "fp32" : "bf16_mixed")) {
      const TensorOutcome kept = test::run_tensor_ranks(layout.run);
      for (int draw = 0; draw < 3; ++draw) {
        SavedPolicy policy;
        std::string text;
        for (int64_t block = 0; block < 3; ++block) {
          for (const std::string_view unit : kUnits) {
            const auto what = static_cast<UnitPolicy>(random() % 3);
            policy.set(block, unit, what);
            text += fmt::format(" {}.{}={}", block, unit, static_cast<int>(what));
          }
        }
        policy.set(0, unit::mlp, UnitPolicy::offload);
        if (draw == 2) policy.recompute_layers({1, 1});
        SCOPED_TRACE(fmt::format("{} {}{}", name, layout.name, text));
        test::expect_same_bits(offloaded(layout.run, policy, random()), kept);
      }
    }
  }
}

}  // namespace
}  // namespace viaduct
