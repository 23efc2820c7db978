// The steps of Muon and Adafactor on the emulator: op_machine.cpp compares each launch with the
// cpu's, whose own tests run whole updates (tests/unit/optim).

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/op_testing.h"
#include "tensor/state_formats.h"

namespace viaduct::test {
namespace {

Tensor some_scalars(bool skip = false) {
  const Tensor scalars = host_tensor(DType::f64, {kStepScalars});
  const auto set = [&](StepScalar name, double value) {
    scalars.data<double>()[static_cast<int>(name)] = value;
  };
  set(StepScalar::learning_rate, 0.02);
  set(StepScalar::decoupled_learning_rate, 0.05);
  set(StepScalar::weight_decay_factor, 0.5);
  set(StepScalar::clip_factor, 0.25);
  set(StepScalar::update, 3);
  set(StepScalar::skip, skip ? 1 : 0);
  return scalars;
}

TEST(MuonSteps, AreTheCpus) {
  OpMachine machine(CpuIsa::portable, 1, {cpu::add_muon});
  OpContext context = machine.context();
  for (const int64_t count : {1, 1003, 4096}) {
    for (const bool skip : {false, true}) {
      const Tensor scalars = some_scalars(skip);
      const Tensor gradient = random_tensor(DType::f32, {count}, 1, 10);
      const Tensor state = random_tensor(DType::f32, {count}, 2),
                   out = host_tensor(DType::f32, {count});
      const double before = element(state, 0);
      muon_momentum(context, {gradient, state, out, scalars, 0.9, count > 1});
      EXPECT_EQ(element(state, 0) == before, skip);
      for (const DType weight : kKernelDTypes) {
        const Tensor master = random_tensor(DType::f32, {count}, 3),
                     rounded = host_tensor(weight, {count});
        muon_update(context, {master, out, rounded, scalars, 0.1});
        if (!skip) expect_same_bits(rounded, converted(master, weight));
      }
      const Tensor sum = host_tensor(DType::f64, {1});
      for (const double squares : {4.0, 0.0}) {
        set_element(sum, 0, squares);
        normalize(context, {out, sum, 1e-7});
      }
    }
  }
}

TEST(OptimizerLists, TakeSeveralLaunches) {
  OpMachine machine(CpuIsa::portable, 1, {cpu::add_optimizer, cpu::add_optimizer_state});
  OpContext context = machine.context();
  const Tensor scalars = some_scalars();
  const auto set = [&](StepScalar name, double value) {
    scalars.data<double>()[static_cast<int>(name)] = value;
  };
  set(StepScalar::bias_correction1, 0.3), set(StepScalar::bias_correction2, 0.1);
  AdamWListArgs coded;
  MomentumListArgs lion;
  ReproducibleSumsArgs sums{{}, true, host_tensor(DType::f64, {kReproducibleSumSize})};
  double squares = 0;
  for (int64_t i = 0; i < 140; ++i) {
    const auto seed = static_cast<uint64_t>(i);
    const int64_t count = i % 13 * 21;
    const Tensor x = random_tensor(DType::f32, {count}, seed);
    for (const double value : values(x)) squares += value * value;
    sums.x.push_back(x);
    if (count == 0) continue;
    if (i % 2 == 0) {
      AdamWArgs run;
      run.master = random_tensor(DType::f32, {count}, seed), run.gradient = x;
      run.first = random_tensor(DType::bf16, {count}, seed + 1);
      run.second = host_tensor(DType::f16, {count});
      run.second_scales = host_tensor(DType::f32, {state_groups(count)});
      store_state(context, {converted(magnitudes(x), DType::f32), run.second, run.second_scales});
      run.weight = host_tensor(DType::bf16, {count}), run.scalars = scalars;
      run.weight_decay = i < 70 ? 0.1 : 0;
      coded.runs.push_back(run);
    }
    MomentumArgs run{random_tensor(DType::f32, {count}, seed + 2),
                     x,
                     random_tensor(DType::f32, {count}, seed + 3),
                     {},
                     scalars,
                     MomentumRule::lion};
    lion.runs.push_back(run);
  }
  ASSERT_GT(coded.runs.size(), 40u) << "more than one launch holds";
  const double before = element(lion.runs.back().master, 0);
  adamw_list(context, coded);
  momentum_list(context, lion);
  reproducible_sums(context, sums);
  const AdamWArgs& last = coded.runs.back();
  expect_same_bits(last.weight, converted(last.master, DType::bf16));
  EXPECT_NEAR(std::abs(element(lion.runs.back().master, 0) - before), 0.02, 1e-6);
  const Tensor sum = host_tensor(DType::f64, {1});
  sum_value(context, {sums.state, sum});
  EXPECT_NEAR(element(sum, 0), squares, 1e-9 * squares);
}

/// Two pieces that together form a matrix, in arrays that begin with another matrix.
class AdafactorSteps : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 45, kColumns = 264, kPlace = 3, kValues = kPlace + 309;

  void SetUp() override {
    const AdafactorMatrix matrix{kRows, kColumns, kPlace, kPlace + kRows};
    for (const int64_t row : {0, 29}) {
      const int64_t rows = row == 0 ? 29 : kRows - 29;
      const Tensor gradient = random_tensor(DType::f32, {rows * kColumns}, 5, 1e-3);
      pieces_.push_back({gradient, matrix, row, 0, rows, kColumns});
    }
  }
  void find_sums() {
    adafactor_limits(context_, {pieces_, limits_});
    adafactor_sums(context_, {pieces_, limits_, sums_});
    adafactor_moments(context_, {{pieces_[0].matrix, {2, 1, 0, 2}},
                                 limits_,
                                 sums_,
                                 moments_,
                                 factors_,
                                 scalars_,
                                 -0.8,
                                 1e-30});
  }

  OpMachine machine_{CpuIsa::portable, 1, {cpu::add_optimizer, cpu::add_optimizer_state}};
  OpContext context_ = machine_.context();
  std::vector<AdafactorPiece> pieces_;
  Tensor limits_ = host_tensor(DType::f32, {kValues}), sums_ = host_tensor(DType::f64, {kValues});
  Tensor moments_ = host_tensor(DType::f32, {kValues}),
         factors_ = host_tensor(DType::f32, {kValues});
  Tensor scalars_ = some_scalars();
};

TEST_F(AdafactorSteps, OfAMatrixAreTheCpus) {
  find_sums();
  // The mean square of row 30, which is row 1 of the second piece.
  double squares = 0, rows = 0;
  for (int64_t i = 0; i < kColumns; ++i)
    squares += std::pow(element(pieces_[1].gradient, kColumns + i), 2) / kColumns;
  const double share = std::pow(3, -0.8);
  EXPECT_NEAR(element(moments_, kPlace + 30), share * squares / 16, 1e-6 * squares);
  for (int64_t i = 0; i < kRows; ++i) rows += element(moments_, kPlace + i) / kRows;
  EXPECT_NEAR(element(factors_, kPlace + 30), std::sqrt(rows / element(moments_, kPlace + 30)),
              1e-6);
  EXPECT_NEAR(element(moments_, 0), share * 1e-30, 1e-36) << "a matrix without gradients";
  std::vector<AdafactorUpdatePiece> updates;
  const Tensor state = host_tensor(DType::f64, {kReproducibleSumSize});
  const Tensor masters = host_tensor(DType::f64, {kReproducibleSumSize});
  for (const AdafactorPiece& piece : pieces_) {
    const int64_t elements = piece.gradient.elements();
    const Tensor out = host_tensor(DType::f32, {elements});
    adafactor_direction(context_, {piece, factors_, {}, scalars_, out, -0.8, 1e-30});
    EXPECT_NEAR(element(out, 0),
                0.25 * element(piece.gradient, 0) * element(factors_, kPlace + piece.row) *
                    element(factors_, kPlace + kRows),
                1e-5);
    const Tensor master = random_tensor(DType::f32, {elements}, 7);
    reproducible_sum(context_, {out, {}, true, state});
    reproducible_sum(context_, {master, {}, true, masters});
    updates.push_back({piece,
                       {},
                       master,
                       host_tensor(DType::bf16, {elements}),
                       state,
                       updates.empty() ? Tensor{} : masters,
                       kRows * kColumns,
                       0.1,
                       StepScalar::decoupled_learning_rate});
  }
  for (const bool relative : {false, true}) {
    adafactor_update(context_, {updates, factors_, scalars_, 1e-3, 0.5, relative});
    expect_same_bits(updates[1].weight, converted(updates[1].master, DType::bf16));
  }
}

TEST_F(AdafactorSteps, WhatIsNotFiniteReachesItsRowAndColumn) {
  set_element(pieces_[0].gradient, 5 * kColumns + 7, std::numeric_limits<double>::infinity());
  find_sums();
  EXPECT_TRUE(std::isnan(element(sums_, kPlace + 5)));
  EXPECT_TRUE(std::isnan(element(sums_, kPlace + kRows + 7)));
  EXPECT_FALSE(std::isnan(element(sums_, kPlace + 6)));
}

TEST_F(AdafactorSteps, OfAVectorAreTheCpus) {
  for (const bool skip : {false, true}) {
    for (const int64_t count : {1, 77, 4096}) {
      const AdafactorPiece piece{random_tensor(DType::f32, {count}, 1), {}, 0, 0, 1, count};
      const Tensor second =
          converted(magnitudes(random_tensor(DType::f32, {count}, 2)), DType::f32);
      const Tensor out = host_tensor(DType::f32, {count}),
                   state = host_tensor(DType::f64, {kReproducibleSumSize});
      const Tensor scalars = some_scalars(skip);
      adafactor_direction(context_, {piece, {}, second, scalars, out, -0.8, 1e-30});
      EXPECT_EQ(element(out, 0) == 0, skip);
      reproducible_sum(context_, {out, {}, true, state});
      const Tensor master = random_tensor(DType::f32, {count}, 3);
      adafactor_update(context_,
                       {{{piece, second, master, {}, state, {}, count, 0.1}}, {}, scalars});
    }
  }
}

}  // namespace
}  // namespace viaduct::test
