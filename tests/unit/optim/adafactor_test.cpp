// Adafactor compared with its formula in FP64 in ten steps of toy parameters, and the formula with
// ten steps of PyTorch's and Hugging Face's.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ops/cpu/cpu_ops.h"
#include "support/op_testing.h"
#include "support/tensor_bytes.h"
#include "support/toy_ranks.h"

namespace viaduct {
namespace {

using namespace test;

using Values = std::vector<double>;

double root_mean_square(const Values& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum / static_cast<double>(x.size()));
}

/// The formula in plain loops, for one tensor: a matrix [rows, columns], or a vector (rows 0).
class Formula {
 public:
  Formula(AdafactorSettings settings, size_t rows, size_t columns)
      : settings_(settings), rows_(rows), columns_(columns) {
    first_.resize(rows == 0 ? columns : rows);
    second_.resize(rows == 0 ? 0 : columns);
  }

  void step(Values& p, const Values& g, int t, double lr, double decay) {
    const double share = std::pow(t, settings_.decay_rate);
    const auto move = [&](double& v, double mean) {
      v = (1 - share) * v + share * (mean + settings_.epsilon1);
    };
    Values u(g.size());
    if (rows_ == 0) {
      for (size_t i = 0; i < g.size(); ++i) {
        move(first_[i], g[i] * g[i]);
        u[i] = g[i] / std::sqrt(first_[i]);
      }
    } else {
      Values rows(rows_), columns(columns_);
      for (size_t i = 0; i < g.size(); ++i) {
        rows[i / columns_] += g[i] * g[i] / static_cast<double>(columns_);
        columns[i % columns_] += g[i] * g[i] / static_cast<double>(rows_);
      }
      double mean = 0;
      for (size_t i = 0; i < rows_; ++i) {
        move(first_[i], rows[i]);
        mean += first_[i] / static_cast<double>(rows_);
      }
      for (size_t i = 0; i < columns_; ++i) move(second_[i], columns[i]);
      for (size_t i = 0; i < g.size(); ++i)
        u[i] = g[i] / std::sqrt(first_[i / columns_] * second_[i % columns_] / mean);
    }
    double step = settings_.relative_step ? std::min(lr, 1 / std::sqrt(t)) : lr;
    if (settings_.scale_parameter) step *= std::max(settings_.epsilon2, root_mean_square(p));
    step /= std::max(1.0, root_mean_square(u) / settings_.clip_threshold);
    for (size_t i = 0; i < p.size(); ++i) p[i] = p[i] * (1 - lr * decay) - step * u[i];
  }

 private:
  AdafactorSettings settings_;
  size_t rows_, columns_;
  Values first_, second_;  // of rows (or elements of a vector) and of columns
};

/// Ten steps from p = (i − 5) / 7 with gradients sin(1 + 3t + i), decay 0.1; rows 0: a vector.
void expect_ten_steps(const AdafactorSettings& settings, size_t rows, double lr,
                      const Values& expected) {
  Formula formula(settings, rows, rows == 0 ? 8 : 8 / rows);
  Values p(8), g(8);
  for (int i = 0; i < 8; ++i) p[static_cast<size_t>(i)] = (i - 5) / 7.0;
  for (int t = 0; t < 10; ++t) {
    for (int i = 0; i < 8; ++i) g[static_cast<size_t>(i)] = std::sin(1 + 3 * t + i);
    formula.step(p, g, t + 1, lr, 0.1);
  }
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(p[i], expected[i], 1e-13) << i;
}

TEST(AdafactorFormula, IsPytorchs) {
  // torch.optim.Adafactor(lr, eps=(1e-30, 1e-3), weight_decay=0.1), PyTorch 2.6, FP64. A rate of
  // 0.5 is above 1/√t from the fourth step on.
  const AdafactorSettings settings{.relative_step = true};
  expect_ten_steps(settings, 2, 0.01,
                   {-0.710181718754898, -0.5668829946716, -0.421248338414943, -0.279444386120103,
                    -0.1409734707327, -0.00158473156437671, 0.136975597479813, 0.281994524604512});
  expect_ten_steps(
      settings, 0, 0.01,
      {-0.710826101898684, -0.56625526987645, -0.423520019728377, -0.278430291822395,
       -0.140714047805347, -0.000525048774707573, 0.136494228418876, 0.281907146044093});
  expect_ten_steps(
      settings, 2, 0.5,
      {-0.456977808027905, -0.285887118525379, -0.099492624301538, -0.123987572801381,
       -0.142691941013919, -0.0871056941248664, 0.0146766233898241, 0.220108716796092});
  expect_ten_steps(
      {.clip_threshold = 1.5, .decay_rate = -0.5, .relative_step = true}, 2, 0.5,
      {-0.459669977683913, -0.291414087361862, -0.111888272594866, -0.119449479937366,
       -0.148670533827341, -0.0828087950631829, 0.0203037416787364, 0.225837525561919});
}

TEST(AdafactorFormula, IsHuggingFacesWithoutScaledSteps) {
  // transformers.Adafactor(lr=0.01, eps=(1e-30, 1e-3), weight_decay=0.1, relative_step=False,
  // scale_parameter=False), transformers 4.56, FP64. scale_parameter also scales the decay there.
  const AdafactorSettings settings{.scale_parameter = false};
  expect_ten_steps(settings, 2, 0.01,
                   {-0.714932905332062, -0.568814588761728, -0.416656783712583, -0.274057736135076,
                    -0.14012750668888, -0.0039572158240591, 0.129988507195938, 0.280501685633237});
  expect_ten_steps(settings, 0, 0.01,
                   {-0.716596351598315, -0.567163521604549, -0.422433221270137, -0.271446821499578,
                    -0.139487960408991, -0.0012149707139912, 0.128758698642719, 0.28030663152182});
  expect_ten_steps(
      {.clip_threshold = 0.5, .scale_parameter = false}, 2, 0.01,
      {-0.71112186276072, -0.567172483246449, -0.420262559823778, -0.278359427053155,
       -0.140882293364601, -0.00212413647957608, 0.135603917186339, 0.281767967436843});
}

/// Weights after some steps of the toy run, by parameter.
std::vector<Values> weights_after(int steps, const AdafactorSettings& settings) {
  ToyRun run;
  run.mesh = Mesh({1, 1, 1, 1, 1});
  run.recipe = "fp32";
  run.steps = steps, run.micro_batches = 1;
  run.optimizer.kind = OptimizerKind::adafactor;
  run.optimizer.adafactor = settings;
  return toy_weights(train_toy(run)[0].weights);
}

class AdafactorSteps : public testing::TestWithParam<AdafactorSettings> {};

TEST_P(AdafactorSteps, TenAreTheFormulaInFp64) {
  const auto shapes = toy_shapes();
  std::vector<Values> p = weights_after(0, GetParam());
  std::vector<Formula> formulas;
  for (const Shape& shape : shapes) {
    const bool matrix = shape.rank() == 2;
    formulas.emplace_back(GetParam(), matrix ? static_cast<size_t>(shape[0]) : 0,
                          static_cast<size_t>(shape[matrix ? 1 : 0]));
  }
  for (int step = 0; step < 10; ++step) {
    std::vector<Values> g(shapes.size());
    double norm = 0;
    for (size_t i = 0; i < g.size(); ++i) {
      for (int64_t e = 0; e < shapes[i].elements(); ++e) {
        g[i].push_back(toy_gradient(step, 0, 0, static_cast<int>(i), e) / 16);
        norm += g[i].back() * g[i].back();
      }
    }
    const double clip = std::min(1.0, 1 / (std::sqrt(norm) + 1e-6));
    for (size_t i = 0; i < g.size(); ++i) {
      for (double& value : g[i]) value *= clip;
      formulas[i].step(p[i], g[i], step + 1, 0.01, shapes[i].rank() == 2 ? 0.1 : 0);
    }
  }
  const auto found = weights_after(10, GetParam());
  for (size_t i = 0; i < p.size(); ++i) {
    for (size_t e = 0; e < p[i].size(); ++e)
      ASSERT_NEAR(found[i][e], p[i][e], 1e-6) << to_string(shapes[i]) << " element " << e;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, AdafactorSteps,
    testing::Values(AdafactorSettings{}, AdafactorSettings{.scale_parameter = false},
                    AdafactorSettings{.clip_threshold = 0.2, .decay_rate = -0.5},
                    AdafactorSettings{.epsilon1 = 1e-4, .epsilon2 = 0.5, .relative_step = true}),
    [](const auto& info) { return "case" + std::to_string(info.index); });

/// Sums of the rows and columns of g [300, 1500], cut into pieces of this many rows.
std::string sums_of(CpuIsa isa, int threads, const Tensor& g, int64_t rows) {
  OpMachine machine(isa, threads, {cpu::add_optimizer_state, cpu::add_elementwise});
  OpContext context = machine.context();
  const int64_t columns = g.dim(1), values = g.dim(0) + columns;
  const Tensor limits = host_tensor(DType::f32, {values}), sums = host_tensor(DType::f64, {values});
  std::vector<AdafactorPiece> pieces;
  for (int64_t r = 0; r < g.dim(0); r += rows) {
    const int64_t count = std::min(rows, g.dim(0) - r);
    pieces.push_back({g.slice(0, r, count).view({count * columns}),
                      {g.dim(0), columns, 0, g.dim(0)},
                      r,
                      0,
                      count,
                      columns});
  }
  adafactor_limits(context, {pieces, limits});
  adafactor_sums(context, {pieces, limits, sums});
  for (int64_t c = 0; c < columns; c += 101) {
    double largest = 0;
    for (int64_t r = 0; r < g.dim(0); ++r)
      largest = std::max(largest, std::abs(element(g, r * columns + c)));
    EXPECT_EQ(element(limits, g.dim(0) + c), largest);
  }
  return bytes_of(limits) + bytes_of(sums);
}

TEST(AdafactorSums, AreTheSameForEveryCut) {
  const Tensor g = random_tensor(DType::f32, {300, 1500}, 3, 1e-3);
  // Columns and rows of different sizes, one of them zeros.
  for (int64_t i = 0; i < g.elements(); ++i)
    g.data<float>()[i] *= std::ldexp(1.0f, static_cast<int>(i % 1500 % 40) - 20);
  for (int64_t c = 0; c < 1500; ++c) g.data<float>()[7 * 1500 + c] = 0;
  const std::string expected = sums_of(CpuIsa::portable, 1, g, 300);
  for (const CpuIsa isa : testable_isas()) {
    for (const int64_t rows : {300, 131, 1}) {
      EXPECT_TRUE(sums_of(isa, 3, g, rows) == expected) << cpu_isa_name(isa) << rows;
    }
  }
}

TEST(AdafactorSums, WhatIsNotFiniteIsSeen) {
  const Tensor g = random_tensor(DType::f32, {4, 6}, 3);
  g.data<float>()[8] = std::nanf("");  // row 1, column 2
  OpMachine machine(CpuIsa::portable, 1, {cpu::add_optimizer_state});
  OpContext context = machine.context();
  const Tensor limits = host_tensor(DType::f32, {10}), sums = host_tensor(DType::f64, {10});
  const std::vector<AdafactorPiece> pieces{{g.view({24}), {4, 6, 0, 4}, 0, 0, 4, 6}};
  adafactor_limits(context, {pieces, limits});
  adafactor_sums(context, {pieces, limits, sums});
  for (int64_t i = 0; i < 10; ++i) {
    const bool touched = i == 1 || i == 4 + 2;
    EXPECT_EQ(std::isinf(element(limits, i)), touched) << i;
    EXPECT_EQ(std::isnan(element(sums, i)), touched) << i;
  }
}

TEST(AdafactorShards, ReduceRowsAndColumnsAlone) {
  ToyRun run;
  run.mesh = Mesh({1, 1, 1, 4, 1});
  run.store.distributed_optimizer = true;
  run.optimizer.kind = OptimizerKind::adafactor;
  const auto ranks = train_toy(run);
  int64_t most = 0, values = 0;
  for (const Shape& shape : toy_shapes())
    if (shape.rank() == 2) values += shape[0] + shape[1];
  for (const CollectiveRecord& c : ranks[0].collectives("all_reduce"))
    most = std::max(most, c.bytes);
  // A row or column takes 4 bytes for a limit and 8 for a sum; the squares of tensors take 1280
  // bytes each.
  EXPECT_GT(most, 0);
  EXPECT_LE(most, std::max<int64_t>(8 * values, 1280 * 2 * 6));
  int64_t vectors = 0;
  for (const Shape& shape : toy_shapes())
    if (shape.rank() == 1) vectors += shape[0];
  int64_t moments = 0;
  for (const ToyRank& rank : ranks) moments += rank.moment_bytes;
  EXPECT_GE(moments, 4 * (4 * values + vectors));
  EXPECT_LE(moments, 4 * (4 * values + vectors) + 64 * 16) << "padding of allocations";
}

}  // namespace
}  // namespace viaduct
