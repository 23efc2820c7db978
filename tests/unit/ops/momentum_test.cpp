// SGD and Lion compared with the FP64 reference, and the reference with ten steps of other
// implementations.

#include "ops/momentum.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/reference/reference.h"
#include "support/op_testing.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using test::OpMachine;

Tensor scalars_of(double lr, double clip, double decay_factor) {
  const Tensor scalars = host_tensor(DType::f64, {kStepScalars});
  auto* slot = scalars.data<double>();
  slot[static_cast<int>(StepScalar::learning_rate)] = lr;
  slot[static_cast<int>(StepScalar::decoupled_learning_rate)] = 7 * lr;
  slot[static_cast<int>(StepScalar::clip_factor)] = clip;
  slot[static_cast<int>(StepScalar::weight_decay_factor)] = decay_factor;
  return scalars;
}

/// Ten steps from p = (i − 5) / 7 with gradients sin(1 + 3t + i), learning rate 0.01, decay 0.1.
void expect_ten_steps(MomentumRule rule, const std::vector<double>& expected) {
  MomentumArgs args;
  args.rule = rule;
  args.master = host_tensor(DType::f64, {8});
  args.gradient = host_tensor(DType::f64, {8});
  args.state = host_tensor(DType::f64, {8});
  args.scalars = scalars_of(0.01, 1, 1);
  args.weight_decay = 0.1;
  for (int i = 0; i < 8; ++i) args.master.data<double>()[i] = (i - 5) / 7.0;
  for (int t = 0; t < 10; ++t) {
    for (int i = 0; i < 8; ++i) args.gradient.data<double>()[i] = std::sin(1 + 3 * t + i);
    reference::momentum(args);
  }
  for (int i = 0; i < 8; ++i)
    EXPECT_NEAR(args.master.data<double>()[i], expected[static_cast<size_t>(i)], 1e-14) << i;
}

TEST(MomentumReference, SgdIsPytorchs) {
  // torch.optim.SGD(lr=0.01, momentum=0.9, weight_decay=0.1), PyTorch 2.6.
  expect_ten_steps(MomentumRule::sgd,
                   {-0.714928165353487, -0.575458442221283, -0.410732551539131, -0.246244299936403,
                    -0.10726900976878, 0.00437449569244498, 0.111996109988056, 0.242603434848603});
}

TEST(MomentumReference, LionIsItsAuthors) {
  // update = sign(β1 m + (1 − β1) g); p −= lr (update + λ p); m = β2 m + (1 − β2) g, in Python.
  expect_ten_steps(
      MomentumRule::lion,
      {-0.747085133936333, -0.565690131049227, -0.42425514816212, -0.243019626353395,
       -0.141484783386308, -4.98004992008586e-05, 0.101584643466288, 0.282919766273415});
}

struct MomentumCase {
  MomentumArgs args;
  MomentumCase(MomentumRule rule, DType weight, int64_t count) {
    args.rule = rule;
    args.master = test::random_tensor(DType::f32, {count}, 1);
    args.gradient = test::random_tensor(DType::f32, {count}, 2, 10);
    args.state = test::random_tensor(DType::f32, {count}, 3);
    args.gradient.data<float>()[0] = args.state.data<float>()[0] = 0;  // Lion does not move it
    if (weight != DType::f32) args.weight = host_tensor(weight, {count});
    args.scalars = scalars_of(0.03, 0.25, 0.5);
    args.weight_decay = 0.2;
  }
  MomentumArgs in_f64() const {
    MomentumArgs wide = args;
    for (Tensor MomentumArgs::*t : {&MomentumArgs::master, &MomentumArgs::gradient,
                                    &MomentumArgs::state, &MomentumArgs::weight})
      wide.*t = test::to_f64(args.*t);
    return wide;
  }
};

class Momentum : public ::testing::TestWithParam<CpuIsa> {};

TEST_P(Momentum, FollowsTheReference) {
  OpMachine machine(GetParam(), 2, {cpu::add_optimizer_state});
  OpContext context = machine.context();
  for (const MomentumRule rule : {MomentumRule::sgd, MomentumRule::lion}) {
    for (const DType weight : test::kKernelDTypes) {
      for (const int64_t count : {1, 15, 16, 1003, 70000}) {
        SCOPED_TRACE(std::string(dtype_name(weight)) + " " + std::to_string(count));
        MomentumCase run(rule, weight, count);
        const MomentumArgs expected = run.in_f64();
        const Tensor terms = test::magnitudes(run.args.master);
        for (int64_t i = 0; i < count; ++i)
          terms.data<double>()[i] += std::fabs(test::element(run.args.gradient, i)) +
                                     std::fabs(test::element(run.args.state, i));
        momentum_list(context, {{run.args}});
        reference::momentum(expected);
        test::expect_close(run.args.master, expected.master, 3, terms);
        test::expect_close(run.args.state, expected.state, 3, terms);
        if (run.args.weight)
          test::expect_same_bits(run.args.weight, test::converted(run.args.master, weight));
      }
    }
  }
}

TEST_P(Momentum, AListIsItsRunsAndSkipLeavesEverything) {
  OpMachine machine(GetParam(), 2, {cpu::add_optimizer_state});
  OpContext context = machine.context();
  MomentumListArgs list;
  std::vector<MomentumCase> alone;
  const Tensor scalars = scalars_of(0.03, 0.25, 0.5);
  for (const int64_t count : {5, 70000, 64}) {
    MomentumCase listed(MomentumRule::lion, DType::bf16, count),
        one(MomentumRule::lion, DType::bf16, count);
    listed.args.scalars = scalars;
    // Runs with different settings for each of them.
    for (MomentumArgs* args : {&listed.args, &one.args}) {
      args->weight_decay = count == 5 ? 0 : 0.2;
      if (count == 64) args->learning_rate = StepScalar::decoupled_learning_rate;
    }
    list.runs.push_back(listed.args);
    alone.push_back(one);
  }
  scalars.data<double>()[static_cast<int>(StepScalar::skip)] = 1;
  const std::string before =
      test::bytes_of(list.runs[1].master) + test::bytes_of(list.runs[1].state);
  momentum_list(context, list);
  EXPECT_TRUE(test::bytes_of(list.runs[1].master) + test::bytes_of(list.runs[1].state) == before);
  scalars.data<double>()[static_cast<int>(StepScalar::skip)] = 0;
  momentum_list(context, list);
  for (size_t i = 0; i < alone.size(); ++i) {
    momentum_list(context, {{alone[i].args}});
    test::expect_same_bits(list.runs[i].master, alone[i].args.master);
    test::expect_same_bits(list.runs[i].weight, alone[i].args.weight);
  }
  list.runs[1].rule = MomentumRule::sgd;
  EXPECT_THROW(momentum_list(context, list), ShapeError) << "one rule";
  list.runs[1].rule = MomentumRule::lion;
  list.runs[1].state = host_tensor(DType::f32, {3});
  EXPECT_THROW(momentum_list(context, list), ShapeError);
  momentum_list(context, {});
}

INSTANTIATE_TEST_SUITE_P(Isas, Momentum, ::testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

}  // namespace
}  // namespace viaduct
