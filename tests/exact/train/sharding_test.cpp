// Sharding of weights, gradients and optimizer state over data-parallel ranks: whole steps of a
// model with each strategy, on every axis, bit by bit.

#include <gtest/gtest.h>

#include <cmath>

#include "nn/saved_policy.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/gemm.h"
#include "support/instruction_set.h"
#include "support/program_run.h"
#include "support/scaled_device.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

using test::expect_same_bits;
using test::ProgramLayout;
using test::ProgramOutcome;
using test::ProgramRun;
using test::run_program;

DdpConfig sharded(ShardingStrategy strategy) {
  DdpConfig ddp;
  ddp.data_parallel_sharding_strategy = strategy;
  ddp.use_distributed_optimizer = strategy != ShardingStrategy::no_shard;
  return ddp;
}

ModelConfig model(bool tied) {
  ModelConfig model = test::tiny_model("llama");
  model.layers = 4;
  model.windows.clear();
  model.tied_embeddings = tied;
  return model;
}

ProgramOutcome train(ProgramRun run, ShardingStrategy strategy) {
  run.ddp = sharded(strategy);
  return run_program(run);
}

/// The order of the sums over micro-batches differs. AdamW's first step has the size of the
/// learning rate however small a gradient is, so a gradient that nearly cancels moves its weight
/// elsewhere.
constexpr double kRounding = 2e-3;

/// ‖a − b‖ / ‖b‖ over all values.
double distance(const ProgramOutcome& a, const ProgramOutcome& b) {
  double difference = 0, size = 0;
  for (size_t rank = 0; rank < b.values.size(); ++rank) {
    for (const auto& [name, values] : b.values[rank]) {
      const std::vector<double>& other = a.values.at(rank).at(name);
      for (size_t i = 0; i < values.size(); ++i) {
        difference += (other.at(i) - values[i]) * (other.at(i) - values[i]);
        size += values[i] * values[i];
      }
    }
  }
  return std::sqrt(difference / size);
}

struct ShardingCase {
  ProgramLayout layout;
  bool tied = false;
  int64_t micro_batches = 1;
};
void PrintTo(const ShardingCase& c, std::ostream* out) {
  *out << c.layout.name;
}

class Sharding : public testing::TestWithParam<ShardingCase> {
 protected:
  ProgramRun run_{.model = model(GetParam().tied),
                  .recipe = "fp32",
                  .layout = GetParam().layout,
                  .micro_batches = GetParam().micro_batches};
};

// One backward a step: the same sums in the same order.
TEST_P(Sharding, StrategiesTrainAlike) {
  const ProgramOutcome expected = train(run_, ShardingStrategy::optim);
  EXPECT_GT(expected.grad_norm, 0);
  const ProgramOutcome gradients = train(run_, ShardingStrategy::optim_grads);
  if (run_.micro_batches == 1) {
    expect_same_bits(gradients, expected);
    expect_same_bits(train(run_, ShardingStrategy::no_shard), expected);
  } else {
    EXPECT_LT(distance(gradients, expected), kRounding);
  }
  expect_same_bits(train(run_, ShardingStrategy::optim_grads_params), gradients);
}

std::vector<ShardingCase> cases() {
  using enum ScheduleKind;
  return {
      {{.name = "dp2", .dp = 2}},
      {{.name = "dp2_tied", .dp = 2}, true},
      {{.name = "dp4_tied_many", .dp = 4}, true, 3},
      {{.name = "tp2_dp2", .tp = 2, .dp = 2, .sequence_parallel = true}, true},
      {{.name = "cp2_dp2", .cp = 2, .dp = 2}},
      {{.name = "cp2", .cp = 2}},
      {{.name = "pp2_dp2_tied", .dp = 2, .pp = 2}, true},
      {{.name = "pp2_dp2_many", .dp = 2, .pp = 2}, true, 4},
      {{.name = "pp2_dp2_chunks", .dp = 2, .pp = 2, .virtual_stages = 2, .kind = interleaved},
       false,
       4},
      {{.name = "pp2_dp2_zero_bubble", .dp = 2, .pp = 2, .kind = zb_h1}, false, 4},
  };
}

INSTANTIATE_TEST_SUITE_P(Layouts, Sharding, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.layout.name; });

SavedPolicy units_again() {
  SavedPolicy policy;
  for (int64_t block = 0; block < 4; ++block)
    for (const std::string_view unit : kUnits) policy.set(block, unit, UnitPolicy::recompute);
  return policy;
}

SavedPolicy layers_again(int64_t group) {
  SavedPolicy policy;
  for (int64_t block = 0; block < 4; block += group) policy.recompute_layers({block, group});
  return policy;
}

// The times at which weights are gathered and gradients reduced, and recomputation, change no bit.
TEST(ShardedWeights, WhenTheyAreGatheredChangesNoBit) {
  ProgramRun run{.model = model(true),
                 .layout = {.name = "dp2", .dp = 2},
                 .micro_batches = 2,
                 .device = test::make_scaled_device};  // memory is NaN before it is written
  run.ddp = sharded(ShardingStrategy::optim_grads_params);
  const ProgramOutcome expected = run_program(run);
  const auto expect_same_with = [&](auto&& change) {
    ProgramRun changed = run;
    change(changed);
    expect_same_bits(run_program(changed), expected);
  };
  expect_same_with([](ProgramRun& r) {
    r.ddp.overlap_grad_reduce = false;
    r.ddp.overlap_param_gather = false;
  });
  expect_same_with([](ProgramRun& r) { r.ddp.suggested_communication_unit_size = 0; });
  expect_same_with([](ProgramRun& r) { r.ddp.suggested_communication_unit_size = 2500; });
  expect_same_with([](ProgramRun& r) { r.ddp.fsdp_double_buffer = true; });
  expect_same_with([](ProgramRun& r) { r.by_segment = true; });
  expect_same_with([](ProgramRun& r) { r.policy = units_again(); });
  for (const int64_t group : {1, 2}) {
    for (const bool buffers : {false, true}) {
      expect_same_with([&](ProgramRun& r) {
        r.policy = layers_again(group);
        r.ddp.fsdp_double_buffer = buffers;
      });
    }
  }
}

// Segments of two micro-batches in turn: a unit then sums both before it is reduced.
TEST(ShardedWeights, MicroBatchesInTurn) {
  ProgramRun run{.model = model(false), .layout = {.name = "dp2", .dp = 2}, .micro_batches = 4};
  run.recipe = "fp32";
  run.ddp = sharded(ShardingStrategy::optim_grads_params);
  const ProgramOutcome expected = run_program(run);
  run.in_turn = 2;
  EXPECT_LT(distance(run_program(run), expected), kRounding);
}

TEST(ShardedWeights, PackedFormsFollowTheGatheredWeight) {
  if (!reads_packed_weights(cpu_ops(test::instruction_set()), DType::bf16))
    GTEST_SKIP() << "no products that read tiles here";
  ProgramRun run{.model = model(true), .layout = {.name = "dp2", .dp = 2}, .micro_batches = 2};
  run.packed_weights = true;
  run.ddp = sharded(ShardingStrategy::optim_grads);
  const ProgramOutcome expected = run_program(run);
  run.ddp = sharded(ShardingStrategy::optim_grads_params);
  const ProgramOutcome outcome = run_program(run);
  expect_same_bits(outcome, expected);
  EXPECT_LT(outcome.peak_bytes, expected.peak_bytes);
}

// Reductions over the instances are in rank order, all-reduced or scattered; nothing else differs.
TEST(SharedState, InstancesTrainAsWithCopiesOfIt) {
  const ProgramLayout layouts[] = {{.name = "dp4", .dp = 4},
                                   {.name = "tp2_dp4", .tp = 2, .dp = 4, .sequence_parallel = true},
                                   {.name = "pp2_dp4", .dp = 4, .pp = 2}};
  for (const ProgramLayout& layout : layouts) {
    for (const auto strategy : {ShardingStrategy::optim, ShardingStrategy::optim_grads,
                                ShardingStrategy::optim_grads_params}) {
      SCOPED_TRACE(layout.name + " " + std::string(choice_name(strategy)));
      ProgramRun run{.model = model(true), .layout = layout, .micro_batches = 2};
      run.ddp = sharded(strategy);
      run.ddp.num_distributed_optimizer_instances = 2;
      const ProgramOutcome expected = run_program(run);
      run.ddp.outer_dp_sharding_strategy = ShardingStrategy::optim;
      const ProgramOutcome shared = run_program(run);
      expect_same_bits(shared, expected);
      EXPECT_LT(shared.peak_bytes, expected.peak_bytes);
    }
  }
}

TEST(ShardedWeights, InstancesKeepAShardEach) {
  ProgramRun run{.model = model(false), .layout = {.name = "dp4", .dp = 4}, .micro_batches = 1};
  run.ddp = sharded(ShardingStrategy::optim);
  run.ddp.num_distributed_optimizer_instances = 2;
  const ProgramOutcome expected = run_program(run);
  run.ddp.data_parallel_sharding_strategy = ShardingStrategy::optim_grads_params;
  expect_same_bits(run_program(run), expected);
}

}  // namespace
}  // namespace viaduct
