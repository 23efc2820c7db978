// Weights and activations that are not finite under each recipe of quantized products: an operand's
// scale is then NaN, and the step stops with its number and the tensor's name, or is skipped.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/cpu/cpu_ops.h"
#include "support/instruction_set.h"
#include "support/rank_trainers.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Recipe {
  std::string name;
  Overrides settings;
};
void PrintTo(const Recipe& recipe, std::ostream* out) {
  *out << recipe.name;
}

const Overrides kFp8Weights{"mixed_precision.fp8_param_gather=true"};
const Overrides kAllBlocks{"mixed_precision.first_last_layers_bf16=false"};

std::vector<Recipe> recipes() {
  const auto named = [](const std::string& name) { return Overrides{"mixed_precision=" + name}; };
  const Overrides delayed = named("bf16_with_fp8_delayed_scaling_mixed"),
                  current = named("bf16_with_fp8_current_scaling_mixed") + kAllBlocks,
                  mx = named("bf16_with_mxfp8_mixed");
  return {{"delayed", delayed},
          {"delayed_fp8_weights", delayed + kFp8Weights},
          {"current", current},
          {"current_fp8_weights", current + kFp8Weights},
          {"blockwise", named("bf16_with_fp8_subchannel_scaling_mixed")},
          {"mxfp8", mx},
          {"mxfp8_fp8_weights",
           mx + kFp8Weights + Overrides{"mixed_precision.reuse_grad_buf_for_mxfp8_param_ag=true"}},
          {"nvfp4", named("bf16_with_nvfp4_mixed")},
          {"nvfp4_fp4_weights",
           named("bf16_with_nvfp4_mixed") + Overrides{"mixed_precision.fp4_param_gather=true"}}};
}

/// Sets element 5 of the master `path` to `value` (for a vector all elements), and updates the
/// weights.
void spoil(Engine& engine, const std::string& path, float value) {
  for (const ShardRun& run : engine.store().shard_runs()) {
    if (run.parameter->path != path) continue;
    float* master = run.master.data<float>();
    if (run.parameter->shape.rank() == 1) {
      std::fill_n(master, run.master.elements(), value);
    } else {
      master[5] = value;
    }
    const OpTable ops = cpu_ops(instruction_set());
    OpContext context{engine.device(), ops};
    engine.store().publish_masters(context);
    return;
  }
  FAIL() << path;
}

/// The error of a run of three steps in which `path` is corrupted after the first one; "" if there
/// is none.
std::string stop_of(const Overrides& settings, const std::string& path, float value,
                    TrainState& state) {
  std::string text;
  with_trainers(tiny_run() + Overrides{"train.train_iters=3", "optimizer.lr=1e-3"} + settings,
                [&](Trainer& trainer, Communicator&) {
                  spoil(trainer.engine(), path, value);
                  try {
                    trainer.run();
                  } catch (const Error& error) {
                    text = error.what();
                  }
                  state = trainer.state();
                });
  return text;
}

class QuantizedNan : public testing::TestWithParam<Recipe> {};

TEST_P(QuantizedNan, AWeightIsNamedWithTheStep) {
  for (const float value : {std::nanf(""), kInfinity, -kInfinity}) {
    TrainState state;
    EXPECT_THAT(
        stop_of(GetParam().settings, "blocks.1.mlp.down.weight", value, state),
        AllOf(HasSubstr("step 1: "), HasSubstr("not finite: weight blocks.1.mlp.down.weight")))
        << value;
    EXPECT_EQ(state.step, 0);
  }
}

// The norm's output, an input of a quantized product, overflows.
TEST_P(QuantizedNan, AnActivationIsNamedByItsLayer) {
  TrainState state;
  EXPECT_THAT(stop_of(GetParam().settings, "blocks.1.mlp.input_norm.weight", 3e38F, state),
              AllOf(HasSubstr("step 1: "), HasSubstr("not finite: output of layer1")));
  EXPECT_EQ(state.step, 0);
}

TEST_P(QuantizedNan, AStepIsSkippedIfItIsConfigured) {
  TrainState state;
  EXPECT_EQ(stop_of(GetParam().settings + Overrides{"train.nan_loss_action=skip"},
                    "blocks.1.mlp.input_norm.weight", 3e38F, state),
            "");
  EXPECT_EQ(state.step, 3);
  EXPECT_EQ(state.skipped, 3);
  EXPECT_EQ(state.updates, 0);
}

INSTANTIATE_TEST_SUITE_P(Recipes, QuantizedNan, testing::ValuesIn(recipes()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
