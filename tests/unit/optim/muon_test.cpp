// Muon compared with its formula in FP64 in ten steps of toy parameters, and the Newton-Schulz
// iteration.

#include "optim/muon.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "ops/cpu/cpu_ops.h"
#include "optim/newton_schulz.h"
#include "support/instruction_set.h"
#include "support/op_testing.h"
#include "support/toy_ranks.h"

namespace viaduct {
namespace {

using namespace test;

using Values = std::vector<double>;

/// The formula in plain loops: x [rows, columns] becomes nearly orthogonal.
Values newton_schulz_in_fp64(const Values& x, int64_t rows, int64_t columns, int steps) {
  const bool tall = rows > columns;
  const auto r = static_cast<size_t>(std::min(rows, columns)),
             c = static_cast<size_t>(std::max(rows, columns));
  const auto at = [&](size_t i, size_t j) { return tall ? j * r + i : i * c + j; };
  double norm = 0;
  for (const double v : x) norm += v * v;
  Values now(r * c);
  for (size_t i = 0; i < r; ++i)
    for (size_t j = 0; j < c; ++j) now[i * c + j] = x[at(i, j)] / std::sqrt(norm);
  const auto product = [&](const Values& a, const Values& b, size_t n, size_t k, size_t m) {
    Values out(n * m);  // a [n, k] · b [k, m]
    for (size_t i = 0; i < n; ++i)
      for (size_t l = 0; l < k; ++l)
        for (size_t j = 0; j < m; ++j) out[i * m + j] += a[i * k + l] * b[l * m + j];
    return out;
  };
  for (int step = 0; step < steps; ++step) {
    Values transposed(c * r);
    for (size_t i = 0; i < r; ++i)
      for (size_t j = 0; j < c; ++j) transposed[j * r + i] = now[i * c + j];
    const Values a = product(now, transposed, r, c, r), aa = product(a, a, r, r, r);
    Values b(r * r);
    for (size_t i = 0; i < b.size(); ++i) b[i] = -4.7750 * a[i] + 2.0315 * aa[i];
    const Values bx = product(b, now, r, r, c);
    for (size_t i = 0; i < now.size(); ++i) now[i] = 3.4445 * now[i] + bx[i];
  }
  Values out(r * c);
  for (size_t i = 0; i < r; ++i)
    for (size_t j = 0; j < c; ++j) out[at(i, j)] = now[i * c + j];
  return out;
}

TEST(NewtonSchulz, IsTheFormula) {
  OpMachine machine(instruction_set(), 2,
                    {cpu::add_gemm, cpu::add_elementwise, cpu::add_optimizer, cpu::add_muon});
  OpContext context = machine.context();
  for (const Shape& shape :
       {Shape{40, 33}, Shape{7, 30}, Shape{64, 64}, Shape{1, 9}, Shape{9, 1}}) {
    const Tensor x = random_tensor(DType::f32, shape, 4, 3);
    const Values expected = newton_schulz_in_fp64(values(x), shape[0], shape[1], 5);
    newton_schulz(context, x, 5);
    const Values found = values(x);
    double difference = 0, size = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      difference += std::pow(found[i] - expected[i], 2);
      size += expected[i] * expected[i];
    }
    EXPECT_LT(std::sqrt(difference / size), 1e-4) << to_string(shape);
    const auto rank = static_cast<double>(std::min(shape[0], shape[1]));
    EXPECT_NEAR(size / rank, 1, 0.6) << "squared singular values are about 1";
  }
  const Tensor zeros = host_tensor(DType::f32, {4, 6});
  newton_schulz(context, zeros, 5);
  for (const double v : values(zeros)) EXPECT_EQ(v, 0);
}

TEST(MuonScale, FollowsTheMode) {
  MuonSettings settings;
  EXPECT_DOUBLE_EQ(muon_scale(settings, 4, 9), 3);
  settings.extra_scale = 0.2;
  EXPECT_DOUBLE_EQ(muon_scale(settings, 16, 9), 0.8);
  settings = {.scale_mode = MuonScale::unit_rms_norm};
  EXPECT_DOUBLE_EQ(muon_scale(settings, 4, 16), 0.5);
  settings.scale_mode = MuonScale::shape_scaling;
  EXPECT_DOUBLE_EQ(muon_scale(settings, 4, 16), 1);
  EXPECT_DOUBLE_EQ(muon_scale(settings, 16, 4), 2);
}

ToyRun toy(int steps, bool nesterov) {
  ToyRun run;
  run.mesh = Mesh({1, 1, 1, 1, 1});
  run.recipe = "fp32";
  run.steps = steps, run.micro_batches = 1;
  run.optimizer.kind = OptimizerKind::muon;
  run.optimizer.muon.nesterov = nesterov;
  run.change = [](std::vector<Parameter>& parameters, const ParallelGroups&) {
    for (Parameter& p : parameters) p.multiplied = p.shape.rank() == 2;
  };
  return run;
}

/// By parameter.
std::vector<Values> weights_after(int steps, bool nesterov) {
  return toy_weights(train_toy(toy(steps, nesterov))[0].weights);
}

class MuonSteps : public testing::TestWithParam<bool> {};

TEST_P(MuonSteps, TenAreTheFormulaInFp64) {
  const bool nesterov = GetParam();
  const auto shapes = toy_shapes();
  std::vector<Values> p = weights_after(0, nesterov), m(shapes.size()), v(shapes.size());
  for (size_t i = 0; i < p.size(); ++i) m[i].resize(p[i].size()), v[i].resize(p[i].size());
  constexpr double kRate = 0.01, kDecay = 0.1;
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
      const bool matrix = shapes[i].rank() == 2;
      Values update(g[i].size());
      for (size_t e = 0; e < update.size(); ++e) {
        if (matrix) {
          m[i][e] = 0.95 * m[i][e] + 0.05 * g[i][e];
          update[e] = nesterov ? 0.95 * m[i][e] + 0.05 * g[i][e] : m[i][e];
        } else {
          m[i][e] = 0.9 * m[i][e] + 0.1 * g[i][e];
          v[i][e] = 0.95 * v[i][e] + 0.05 * g[i][e] * g[i][e];
          update[e] = m[i][e] / (1 - std::pow(0.9, step + 1)) /
                      (std::sqrt(v[i][e] / (1 - std::pow(0.95, step + 1))) + 1e-8);
        }
      }
      double factor = 1;
      if (matrix) {
        update = newton_schulz_in_fp64(update, shapes[i][0], shapes[i][1], 5);
        factor = std::sqrt(static_cast<double>(std::max(shapes[i][0], shapes[i][1])));
      }
      for (size_t e = 0; e < update.size(); ++e)
        p[i][e] = p[i][e] * (1 - (matrix ? kRate * kDecay : 0)) - kRate * factor * update[e];
    }
  }
  const auto found = weights_after(10, nesterov);
  for (size_t i = 0; i < p.size(); ++i) {
    for (size_t e = 0; e < p[i].size(); ++e)
      ASSERT_NEAR(found[i][e], p[i][e], 2e-4) << to_string(shapes[i]) << " element " << e;
  }
}

INSTANTIATE_TEST_SUITE_P(Nesterov, MuonSteps, testing::Bool());

}  // namespace
}  // namespace viaduct
