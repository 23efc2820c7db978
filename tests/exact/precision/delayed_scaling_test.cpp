// Delayed scaling: the scales of a step follow from the magnitudes of earlier steps by Transformer
// Engine's formula, equally on all ranks, also with recomputation and after resumption.

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <set>

#include "checkpoint/checkpoint_reader.h"
#include "nn/delayed_scales.h"
#include "ops/cpu/cpu_ops.h"
#include "support/instruction_set.h"
#include "support/rank_trainers.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "train/run_checkpoint.h"

namespace viaduct {
namespace {

using namespace test;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

const Overrides kDelayed =
    tiny_run() + Overrides{"mixed_precision=bf16_with_fp8_delayed_scaling_mixed",
                           "mixed_precision.fp8_amax_history_len=3", "train.train_iters=6",
                           "train.micro_batch_size=1"};

const Overrides kAttention{"mixed_precision.fp8_dot_product_attention=true",
                           "mixed_precision.fp8_multi_head_attention=true"};
/// Histories of the run's two blocks of four linear layers, and of their attention.
constexpr size_t kHistories = 2 * (4 * 3 + 4);

// Transformer Engine's documentation of DelayedScaling, in FP64:
//   FP8_MAX = maximum_representable_value(fp8_format)
//   new_scaling_factor = (FP8_MAX / amax) / (2 ^ margin)
// with amax = the largest or the most recent entry of the history; if it is 0 or not finite, the
// scaling factor is unchanged.
class Formula {
 public:
  Formula(double largest, size_t steps, bool most_recent, int margin)
      : largest_(largest), most_recent_(most_recent), margin_(margin), history_(steps, 0.0) {}
  void step(double amax) {
    history_.insert(history_.begin(), std::isfinite(amax) ? amax : 0);
    history_.pop_back();
    const double of = most_recent_ ? history_[0] : *std::ranges::max_element(history_);
    if (of > 0) factor_ = largest_ / of / std::pow(2.0, margin_);
  }
  double factor() const { return factor_; }

 private:
  double largest_;
  bool most_recent_;
  int margin_;
  std::vector<double> history_;
  double factor_ = 1;
};

Parameter quantized_parameter() {
  Parameter parameter;
  parameter.path = "blocks.0.layer.weight";
  parameter.shape = {2, 3};
  parameter.quantized = true;
  return parameter;
}

PrecisionRecipe delayed_recipe(int64_t steps, bool most_recent, int64_t margin) {
  PrecisionRecipe recipe = precision_recipe("bf16_with_fp8_delayed_scaling_mixed");
  recipe.amax.steps = steps, recipe.amax.most_recent = most_recent, recipe.amax.margin = margin;
  return recipe;
}

Tensor matrix_of(std::initializer_list<float> values) {
  const Tensor matrix = host_tensor(DType::f32, {1, static_cast<int64_t>(values.size())});
  std::ranges::copy(values, matrix.data<float>());
  return matrix;
}

TEST(DelayedScaling, ScalesAreThoseOfTransformerEngine) {
  const auto device = make_cpu_device(1);
  const OpTable ops = cpu_ops(instruction_set());
  OpContext context{*device, ops};
  const Parameter parameter = quantized_parameter();
  const ParallelGroups groups = self_groups();
  const float amaxes[] = {3.5f, 0, 1e-3f, 448, 0, 0, 0, kInfinity, 7, 1e-40f, 0.25f, 3e38f};
  for (const bool most_recent : {true, false}) {
    for (const int64_t steps : {1, 2, 4}) {
      for (const int margin : {0, 3}) {
        SCOPED_TRACE(fmt::format("{} {} {}", most_recent, steps, margin));
        for (const LayerOperand operand : kLayerOperands) {
          const double largest = operand == LayerOperand::output_gradient ? 57344 : 448;
          DelayedScales scales(context, {&parameter}, delayed_recipe(steps, most_recent, margin),
                               groups);
          Formula formula(largest, static_cast<size_t>(steps), most_recent, margin);
          for (const float amax : amaxes) {
            const auto chosen = [&] { return scales.chosen(parameter, operand).data<float>()[0]; };
            const double expected = largest / formula.factor();
            // The product with 2^margin is rounded once and may leave the range of FP32.
            const double most = std::numeric_limits<float>::max();
            EXPECT_NEAR(chosen(), std::min(expected, most), 1e-6 * std::min(expected, most));
            const float before = chosen();
            const Tensor used =
                scales.note(context, parameter, operand, matrix_of({amax / 2, -amax, 0}));
            EXPECT_EQ(used.data<float>()[0], std::isfinite(amax) ? before : kInfinity);
            EXPECT_EQ(chosen(), before) << "a scale changed within the step";
            scales.finish_step(context);
            formula.step(amax);
          }
        }
      }
    }
  }
}

TEST(DelayedScaling, AStepHasTheLargestMagnitudeOfItsMicroBatches) {
  const auto device = make_cpu_device(1);
  const OpTable ops = cpu_ops(instruction_set());
  OpContext context{*device, ops};
  const Parameter parameter = quantized_parameter();
  DelayedScales scales(context, {&parameter}, delayed_recipe(2, true, 0), self_groups());
  for (const float amax : {1.0f, 4.0f, 2.0f}) {
    for (const LayerOperand operand : kLayerOperands)
      scales.note(context, parameter, operand, matrix_of({amax}));
  }
  scales.finish_step(context);
  EXPECT_EQ(scales.chosen(parameter, LayerOperand::input).data<float>()[0], 4);
  EXPECT_EQ(scales.chosen(parameter, LayerOperand::output_gradient).data<float>()[0], 4);
  // A weight differs each time that it is quantized.
  EXPECT_EQ(scales.chosen(parameter, LayerOperand::weight).data<float>()[0], 2);
  const Tensor values = scales.values(context);
  scales.finish_step(context);
  EXPECT_EQ(scales.values(context).data<float>()[0], 4) << "nothing was noted";
  EXPECT_EQ(values.shape(), (Shape{3, 3}));
}

TEST(DelayedScaling, AHistoryOfAnotherLengthIsCutOrGoesOn) {
  const auto device = make_cpu_device(1);
  const OpTable ops = cpu_ops(instruction_set());
  OpContext context{*device, ops};
  const Parameter parameter = quantized_parameter();
  const Tensor stored = matrix_of({8, 5, 4, 3}).view(Shape{4});  // chosen, then three steps
  for (const int64_t steps : {2, 5}) {
    DelayedScales scales(context, {&parameter}, delayed_recipe(steps, false, 0), self_groups());
    scales.note(context, parameter, LayerOperand::input, matrix_of({100}));
    scales.restore(0, stored);
    const Tensor values = scales.values(context);
    const float* row = values.data<float>();
    EXPECT_EQ(row[0], 8);
    for (int64_t i = 0; i < steps; ++i)
      EXPECT_EQ(row[1 + i], i < 3 ? stored.data<float>()[1 + i] : 0);
    scales.finish_step(context);
    EXPECT_EQ(scales.chosen(parameter, LayerOperand::input).data<float>()[0], 5)
        << "earlier magnitudes count";
  }
}

/// Values by name: the chosen amax, then the history.
std::map<std::string, std::vector<float>> values_of(Engine& engine) {
  OpContext context = engine.context(false, false).ops;
  DelayedScales& scales = *engine.delayed_scales();
  const Tensor all = scales.values(context);
  std::map<std::string, std::vector<float>> values;
  const std::vector<std::string> names = scales.names();
  for (size_t i = 0; i < names.size(); ++i) {
    const float* row = all.data<float>() + static_cast<int64_t>(i) * all.dim(1);
    values[names[i]] = {row, row + all.dim(1)};
  }
  return values;
}

double largest_of(const Tensor& weight) {
  double largest = 0;
  for (int64_t i = 0; i < weight.elements(); ++i)
    largest = std::max(largest, std::abs(double{static_cast<float>(weight.data<bfloat16>()[i])}));
  return largest;
}

// The weights of a step are quantized with the magnitudes of the weights of earlier steps.
TEST(DelayedScaling, AStepReadsWeightsWithScalesOfEarlierSteps) {
  with_trainers(kDelayed + Overrides{"train.train_iters=1"}, [](Trainer& trainer, Communicator&) {
    trainer.run();
    Engine& engine = trainer.engine();
    const Parameter* weight = nullptr;
    for (const Parameter* parameter : engine.store().parameters())
      if (parameter->quantized) weight = parameter;
    ASSERT_NE(weight, nullptr);
    const auto scale_of = [&] {
      const AcquiredWeight held(engine.store(), *weight, WeightUse::forward);
      return held.operand().scales().data<float>()[0];
    };
    const std::string name = weight->path + "/weight";
    Formula formula(448, 3, false, 0);
    // The step used the initial weights, whose magnitude is in the history.
    const std::vector<float> first = values_of(engine).at(name);
    EXPECT_EQ(first[0], first[1]);
    EXPECT_NE(static_cast<double>(first[1]), largest_of(engine.store().weight(*weight)));
    formula.step(first[1]);
    EXPECT_FLOAT_EQ(scale_of(), static_cast<float>(1 / formula.factor()));
    OpContext context = engine.context(false, false).ops;
    const double now = largest_of(engine.store().weight(*weight));
    engine.delayed_scales()->finish_step(context);  // the weight was noted when it was quantized
    EXPECT_EQ(values_of(engine).at(name)[1], static_cast<float>(now));
  });
}

std::map<std::string, std::string> staged(Trainer& trainer) {
  std::map<std::string, std::string> tensors;
  for (const auto& entry : stage_run(trainer.engine(), trainer.state()).entries)
    tensors[entry.entry.tensor.name] = bytes_of(entry.values());
  return tensors;
}

struct Layout {
  std::string name;
  Overrides settings;
  bool same_bits = false;  // as one rank, in the first step
};
const Layout kLayouts[] = {
    {"dp2", {"dist.ranks=2"}, true},
    {"pp2", {"dist.ranks=2", "model.pipeline_model_parallel_size=2"}, true},
    {"tp2", {"dist.ranks=2", "model.tensor_model_parallel_size=2"}},
    {"cp2", {"dist.ranks=2", "model.context_parallel_size=2"}},
    {"tp2_dp2", {"dist.ranks=4", "model.tensor_model_parallel_size=2"}},
};

// Micro-batches of one row in every layout, so that the step is the same.
TEST(DelayedScaling, EveryLayoutHasTheScalesOfOneRank) {
  for (const int steps : {1, 3}) {
    const Overrides run =
        kDelayed + kAttention + Overrides{fmt::format("train.train_iters={}", steps)};
    std::map<std::string, std::vector<float>> alone;
    with_trainers(run, [&](Trainer& trainer, Communicator&) {
      trainer.run();
      alone = values_of(trainer.engine());
    });
    ASSERT_EQ(alone.size(), kHistories);
    for (const Layout& layout : kLayouts) {
      SCOPED_TRACE(layout.name + " " + std::to_string(steps));
      std::vector<std::map<std::string, std::vector<float>>> by_rank(4);
      with_trainers(run + layout.settings, [&](Trainer& trainer, Communicator& world) {
        trainer.run();
        by_rank[static_cast<size_t>(world.rank())] = values_of(trainer.engine());
      });
      std::set<std::string> names;
      for (const auto& values : by_rank) {
        for (const auto& [name, ours] : values) {
          names.insert(name);
          const std::vector<float>& one = alone.at(name);
          for (size_t i = 0; i < one.size(); ++i) {
            if (steps == 1 && layout.same_bits) {
              EXPECT_EQ(ours[i], one[i]) << name;
            } else {
              // BF16 tensors; FP8 products with other sums, including attention's.
              EXPECT_NEAR(ours[i], one[i], 0.25 * one[i]) << name << " " << i;
            }
          }
          for (const auto& other : by_rank) {
            const auto found = other.find(name);
            if (found == other.end()) continue;
            EXPECT_EQ(found->second, ours) << name;
          }
        }
      }
      EXPECT_EQ(names.size(), alone.size());
    }
  }
}

TEST(DelayedScaling, DataRanksHaveTheirOwnScalesIfMaximaAreNotReducedOverThem) {
  const Overrides run =
      kDelayed + Overrides{"dist.ranks=2", "mixed_precision.tp_only_amax_red=true"};
  std::vector<std::map<std::string, std::vector<float>>> by_rank(2);
  std::map<std::string, std::string> saved;
  with_trainers(run, [&](Trainer& trainer, Communicator& world) {
    trainer.run();
    Engine& engine = trainer.engine();
    auto& mine = by_rank[static_cast<size_t>(world.rank())];
    for (const Parameter* parameter : engine.store().parameters()) {
      if (!parameter->quantized) continue;
      const DelayedScales& scales = *engine.delayed_scales();
      mine[parameter->path] = {scales.chosen(*parameter, LayerOperand::input).data<float>()[0],
                               scales.chosen(*parameter, LayerOperand::weight).data<float>()[0]};
    }
    auto all = staged(trainer);
    if (world.rank() == 0) saved = std::move(all);
  });
  bool differ = false;
  for (const auto& [path, chosen] : by_rank[0]) {
    const std::vector<float>& other = by_rank[1].at(path);
    differ = differ || chosen[0] != other[0];
    EXPECT_EQ(chosen[1], other[1]) << "weights are equal";
    float stored = 0;
    std::memcpy(&stored, saved.at("fp8_amax/" + path + "/input").data(), sizeof stored);
    EXPECT_EQ(stored, std::max(chosen[0], other[0]));
  }
  EXPECT_TRUE(differ);
}

TEST(DelayedScaling, WhatRunsAgainOrIsEvaluatedCountsOnce) {
  const RunOutcome run = train_run(kDelayed + kAttention);
  ASSERT_TRUE(run.tensors.contains("fp8_amax/blocks.0.attention.qkv.weight/input"));
  ASSERT_TRUE(run.tensors.contains("fp8_amax/blocks.1.attention.projection.weight/value"));
  for (const Overrides& change :
       std::vector<Overrides>{{"model.recompute_granularity=full", "model.recompute_method=uniform",
                               "model.recompute_num_layers=1"},
                              {"model.recompute_granularity=selective",
                               "model.recompute_modules=[core_attn, layernorm, mlp]"},
                              {"validation.eval_iters=1", "validation.eval_interval=2"}}) {
    const RunOutcome changed = train_run(kDelayed + kAttention + change);
    EXPECT_EQ(changed.tensors, run.tensors) << change.front();
  }
}

TEST(DelayedScaling, StopAndResumeChangesNoBitNorDoesTheLayoutOfTheCheckpoint) {
  const RunOutcome whole = train_run(kDelayed + kAttention);
  TemporaryFolder folder;
  const Overrides saved =
      kDelayed + kAttention + Overrides{"checkpoint.save=" + folder.path().string()};
  train_run(saved + Overrides{"train.exit_interval=3"});
  const auto reader = open_checkpoint(folder.path());
  std::map<std::string, std::string> stored;
  for (const TensorInfo& info : reader->tensors())
    if (info.name.starts_with("fp8_amax/")) stored[info.name] = bytes_of(reader->tensor(info.name));
  EXPECT_EQ(stored.size(), kHistories);
  for (const Layout& layout : kLayouts) {
    with_trainers(kDelayed + kAttention + layout.settings +
                      Overrides{"checkpoint.load=" + folder.path().string()},
                  [&](Trainer& trainer, Communicator& world) {
                    std::map<std::string, std::string> held = staged(trainer);
                    std::erase_if(held, [](const auto& entry) {
                      return !entry.first.starts_with("fp8_amax/");
                    });
                    for (const auto& [name, bytes] : held)
                      EXPECT_TRUE(stored.at(name) == bytes) << layout.name << " " << name;
                    // One rank of a stage saves its histories.
                    const int copies = trainer.engine().groups().tp().rank() +
                                       trainer.engine().groups().dp_cp().rank();
                    EXPECT_EQ(held.empty(), copies > 0) << world.rank();
                  });
  }
  EXPECT_EQ(train_run(saved), whole);
}

}  // namespace
}  // namespace viaduct
