// Programs over segments and policies of saved values change no bit: everything recomputed, one
// action a segment, segments of two micro-batches in turn, everything offloaded. Each in every
// layout of this part of the layout suite, compared with the same layout and the plain program.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "pipeline/layer_map.h"
#include "support/later_memory.h"
#include "support/program_run.h"
#include "support/scaled_device.h"
#include "support/tensor_layouts.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

using test::ProgramLayout;
using test::ProgramOutcome;
using test::ProgramRun;

std::vector<ProgramLayout> program_layouts() {
  using enum ScheduleKind;
  return {
      {"one"},
      {.name = "tp2_sequence", .tp = 2, .sequence_parallel = true},
      {.name = "cp2", .cp = 2},
      {.name = "dp2", .dp = 2},
      {.name = "pp2", .pp = 2},
      {.name = "pp4", .pp = 4},
      {.name = "pp2_gpipe", .pp = 2, .kind = gpipe},
      {.name = "pp2_zero_bubble", .pp = 2, .kind = zb_h1},
      {.name = "pp2_chunks", .pp = 2, .virtual_stages = 2, .kind = interleaved},
      {.name = "tp2_pp2_zero_bubble", .tp = 2, .pp = 2, .sequence_parallel = true, .kind = zb_h1},
      {.name = "cp2_pp2", .cp = 2, .pp = 2},
      {.name = "dp2_pp2_chunks", .dp = 2, .pp = 2, .virtual_stages = 2, .kind = interleaved}};
}

ModelConfig program_model() {
  ModelConfig model = test::tiny_model("llama");  // its tables are not tied
  model.layers = 4;
  model.windows.clear();
  model.kv_heads = std::max<int64_t>(2, model.kv_heads);
  model.embedding_dropout = model.residual_dropout = model.attention_dropout = 0.2;
  return model;
}

SavedPolicy all_units(UnitPolicy what) {
  SavedPolicy policy;
  for (int64_t block = 0; block < 4; ++block) {
    for (const std::string_view unit : kUnits) policy.set(block, unit, what);
  }
  return policy;
}

class ProgramPolicies : public testing::TestWithParam<ProgramLayout> {
 protected:
  ProgramPolicies() { run_ = {.model = program_model(), .layout = GetParam()}; }

  ProgramOutcome plain() const { return test::run_program(run_); }
  void offload(uint64_t seed) {
    run_.device = test::make_scaled_device;  // poisoned memory
    run_.second_memory = [seed](int rank) {
      return std::make_unique<test::LaterMemory>(seed + static_cast<uint64_t>(rank));
    };
  }

  ProgramRun run_;
};

TEST_P(ProgramPolicies, EverythingMadeAgain) {
  const ProgramOutcome expected = plain();
  run_.policy = all_units(UnitPolicy::recompute);
  const ProgramOutcome outcome = test::run_program(run_);
  test::expect_same_bits(outcome, expected);
  // With separate halves the recomputed tensors are kept for the weight half.
  if (GetParam().kind != ScheduleKind::zb_h1) {
    EXPECT_LT(outcome.peak_bytes, expected.peak_bytes);
  }
  run_.policy = {};
  const ProgramLayout& layout = GetParam();
  for (const ChunkLayers& chunk : layer_map(LayerMapSettings{4, layout.pp, layout.virtual_stages}))
    run_.policy.recompute_layers({chunk.first_block, chunk.blocks});
  test::expect_same_bits(test::run_program(run_), expected);
}

TEST_P(ProgramPolicies, EachSegmentAnActionOfItsOwn) {
  const ProgramOutcome expected = plain();
  run_.by_segment = true;
  const ProgramOutcome outcome = test::run_program(run_);
  test::expect_same_bits(outcome, expected);
  for (size_t stage = 0; stage < expected.holds.size(); ++stage)
    EXPECT_EQ(outcome.holds[stage].stores, expected.holds[stage].stores) << stage;
}

TEST_P(ProgramPolicies, SegmentsOfTwoMicroBatchesInTurn) {
  const ProgramOutcome expected = plain();
  run_.micro_batches = 4;
  const ProgramOutcome pairs_apart = plain();  // as many micro-batches as pairs later
  run_.micro_batches = 8;
  run_.in_turn = 2;
  const ProgramOutcome outcome = test::run_program(run_);
  test::expect_same_bits(outcome, expected);
  for (size_t stage = 0; stage < expected.holds.size(); ++stage)
    EXPECT_EQ(outcome.holds[stage].stores, 2 * pairs_apart.holds[stage].stores) << stage;
}

TEST_P(ProgramPolicies, EverythingOffloaded) {
  const ProgramOutcome expected = plain();
  run_.policy = all_units(UnitPolicy::offload);
  offload(1);
  const ProgramOutcome outcome = test::run_program(run_);
  test::expect_same_bits(outcome, expected);
  EXPECT_LT(outcome.peak_bytes, expected.peak_bytes);
  run_.by_segment = true;
  offload(2);
  test::expect_same_bits(test::run_program(run_), expected);
}

// Each unit of each block separately; CI tries two.
TEST_P(ProgramPolicies, OneUnit) {
  const ProgramOutcome expected = plain();
  offload(4);
  std::mt19937 random(static_cast<unsigned>(GetParam().name.size()));
  const auto expect = [&](int64_t block, std::string_view unit, UnitPolicy what) {
    SCOPED_TRACE(fmt::format("block {} {} policy {}", block, unit, static_cast<int>(what)));
    run_.policy = {};
    run_.policy.set(block, unit, what);
    test::expect_same_bits(test::run_program(run_), expected);
  };
  for (const UnitPolicy what : {UnitPolicy::recompute, UnitPolicy::offload}) {
    if (!test::all_policies()) {
      expect(static_cast<int64_t>(random() % 4), kUnits[random() % kUnits.size()], what);
      continue;
    }
    for (int64_t block = 0; block < 4; ++block) {
      for (const std::string_view unit : kUnits) expect(block, unit, what);
    }
  }
}

// Any policy for each unit and block, and segments of two micro-batches in turn.
TEST_P(ProgramPolicies, MixedAndInTurn) {
  const ProgramOutcome expected = plain();
  std::mt19937 random(static_cast<unsigned>(GetParam().name.size()));
  for (int64_t block = 0; block < 4; ++block) {
    for (const std::string_view unit : kUnits)
      run_.policy.set(block, unit, static_cast<UnitPolicy>(random() % 3));
  }
  run_.policy.set(1, unit::mlp, UnitPolicy::offload);
  run_.policy.recompute_layers({2, 1});
  run_.in_turn = 2;
  offload(3);
  test::expect_same_bits(test::run_program(run_), expected);
}

INSTANTIATE_TEST_SUITE_P(Layouts, ProgramPolicies, testing::ValuesIn(program_layouts()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
