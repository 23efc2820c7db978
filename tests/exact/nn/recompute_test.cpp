// Recomputation does not change the bits of loss and gradients, and frees exactly the bytes of a
// table. With dropout, in many layouts.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "support/saved_bytes.h"
#include "support/tensor_layouts.h"

namespace viaduct {
namespace {

using test::LayoutRun;
using test::layouts;
using test::SavedBytes;
using test::TensorOutcome;
using test::TensorRun;

SavedPolicy one_unit(int64_t block, std::string_view unit) {
  SavedPolicy policy;
  policy.set(block, unit, UnitPolicy::recompute);
  return policy;
}

void expect_recomputed(TensorRun run, const TensorOutcome& kept, const SavedPolicy& policy,
                       std::optional<int64_t> dropped_bytes) {
  run.saved_policy = policy;
  const TensorOutcome outcome = test::run_tensor_ranks(run);
  test::expect_same_bits(outcome, kept);
  const int64_t dropped = kept.saved_bytes - outcome.saved_bytes;
  EXPECT_EQ(dropped, dropped_bytes.value_or(dropped));
  EXPECT_EQ(outcome.saved_tag_bytes, outcome.saved_bytes) << "by tag, and by the store";
}

TEST(Recompute, OneUnitAtATimeDropsItsBytesAndChangesNoBit) {
  for (const char* name : {"llama", "gpt2", "qwen3", "gemma2"}) {
    for (const char* recipe : {"fp32", "bf16_mixed"}) {
      auto runs = layouts(test::layout_model(name), recipe);
      // All units of the model with the most terms.
      if (name != std::string_view("qwen3") && !test::all_policies()) runs = {runs[0], runs[2]};
      for (const LayoutRun& layout : runs) {
        const TensorOutcome kept = test::run_tensor_ranks(layout.run);
        const SavedBytes table(layout.run);
        for (int64_t block = 0; block < 2; ++block) {
          for (const std::string_view unit : kUnits) {
            SCOPED_TRACE(
                fmt::format("{} {} {} block {} {}", name, recipe, layout.name, block, unit));
            expect_recomputed(layout.run, kept, one_unit(block, unit), table.dropped(unit));
          }
        }
      }
    }
  }
}

TEST(Recompute, LayersAndGroupsOfThemKeepTheirInputAlone) {
  for (const char* name : {"llama", "gpt2", "qwen3", "gemma2"}) {
    for (const LayoutRun& layout : layouts(test::layout_model(name, 3), "bf16_mixed")) {
      SCOPED_TRACE(std::string(name) + " " + layout.name);
      const TensorOutcome kept = test::run_tensor_ranks(layout.run);
      const SavedBytes table(layout.run);
      for (const auto& groups :
           {std::vector<LayerGroup>{{1, 1}}, std::vector<LayerGroup>{{0, 1}, {1, 1}, {2, 1}},
            std::vector<LayerGroup>{{0, 2}, {2, 1}}, std::vector<LayerGroup>{{0, 3}}}) {
        SavedPolicy policy;
        int64_t dropped = 0;
        for (const LayerGroup& group : groups) {
          policy.recompute_layers(group);
          dropped += group.blocks * table.block() - table.stream();
        }
        expect_recomputed(layout.run, kept, policy, dropped);
      }
    }
  }
}

// Bytes of units add up, except if core_attn exchanges heads: qkv_linear then frees its inputs.
TEST(Recompute, AnySubsetOfUnitsAndLayersOnEveryLayout) {
  std::mt19937 random(14);
  for (const char* name : {"llama", "qwen2", "qwen3", "gemma2", "gpt2"}) {
    const ModelConfig model = test::layout_model(name, 3);
    for (const LayoutRun& layout : layouts(model, random() % 2 == 0 ? "fp32" : "bf16_mixed")) {
      const TensorOutcome kept = test::run_tensor_ranks(layout.run);
      const SavedBytes table(layout.run);
      for (int draw = 0; draw < 3; ++draw) {
        SavedPolicy policy;
        int64_t dropped = 0;
        std::string text;
        for (int64_t block = 0; block < model.layers; ++block) {
          for (const std::string_view unit : kUnits) {
            if (random() % 2 == 0) continue;
            policy.set(block, unit, UnitPolicy::recompute);
            dropped += table.dropped(unit);
            text += fmt::format(" {}.{}", block, unit);
          }
        }
        SCOPED_TRACE(fmt::format("{} {} recomputes{}", name, layout.name, text));
        const bool adds_up = layout.name.find("cp 2, heads") == std::string::npos &&
                             layout.name.find("cp 4") == std::string::npos;
        expect_recomputed(layout.run, kept, policy,
                          adds_up ? std::optional(dropped) : std::nullopt);
        if (draw == 0) {  // and one that recomputes whole layers
          policy.recompute_layers({draw + 1, 1});
          expect_recomputed(layout.run, kept, policy, std::nullopt);
        }
      }
    }
  }
}

TEST(Recompute, EverythingAtOnce) {
  for (const LayoutRun& layout : layouts(test::layout_model("qwen3", 3), "bf16_mixed")) {
    SCOPED_TRACE(layout.name);
    SavedPolicy units;
    for (int64_t block = 0; block < 3; ++block) {
      for (const std::string_view unit : kUnits) units.set(block, unit, UnitPolicy::recompute);
    }
    expect_recomputed(layout.run, test::run_tensor_ranks(layout.run), units, std::nullopt);
  }
}

}  // namespace
}  // namespace viaduct
