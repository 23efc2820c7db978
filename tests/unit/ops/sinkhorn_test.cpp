// The Sinkhorn balancing of a router's choice, compared with the published definition in FP64 with
// factors of tokens and of experts; and its purpose.

#include "ops/sinkhorn.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "ops/reference/reference.h"
#include "ops/routing.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::element;
using test::OpMachine;
using test::random_tensor;
using test::set_element;
using test::to_f64;
using test::values;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kTokens = 1500, kExperts = 13;  // more than one task

/// Logits whose experts have very different means: without balancing a few experts get all tokens.
Tensor skewed_logits(int64_t tokens = kTokens) {
  const Tensor logits = random_tensor(DType::f32, {tokens, kExperts}, 4, 1.5);
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t e = 0; e < kExperts; ++e)
      set_element(logits, t * kExperts + e,
                  element(logits, t * kExperts + e) + 0.3 * static_cast<double>(e));
  return logits;
}

/// The matrix at the end of scaling, and the experts' factors: rows of exp(logits) without any
/// shift, both factors kept, and no limit of rounds.
struct Scaled {
  std::vector<double> matrix, factors;
};

Scaled scale_by_definition(const Tensor& logits) {
  const auto n = static_cast<size_t>(logits.dim(0)), m = static_cast<size_t>(logits.dim(1));
  std::vector<double> cost(n * m), rows(n, 1), columns(m, 1), before(m, 1);
  for (size_t i = 0; i < n * m; ++i) cost[i] = std::exp(element(logits, static_cast<int64_t>(i)));
  double error = 1;
  while (error > 1e-4) {
    for (size_t t = 0; t < n; ++t) {
      double sum = 0;
      for (size_t e = 0; e < m; ++e) sum += columns[e] * cost[t * m + e];
      rows[t] = 1 / static_cast<double>(n) / (sum + 1e-8);
    }
    for (size_t e = 0; e < m; ++e) {
      double sum = 0;
      for (size_t t = 0; t < n; ++t) sum += rows[t] * cost[t * m + e];
      columns[e] = 1 / static_cast<double>(m) / (sum + 1e-8);
    }
    error = 0;
    for (size_t e = 0; e < m; ++e)
      error += std::abs(columns[e] - before[e]) / static_cast<double>(m);
    before = columns;
  }
  for (size_t t = 0; t < n; ++t)
    for (size_t e = 0; e < m; ++e) cost[t * m + e] *= rows[t] * columns[e];
  return {cost, columns};
}

class SinkhornTest : public testing::Test {
 protected:
  Tensor bias_of(const Tensor& logits) {
    const Tensor bias = host_tensor(logits.dtype(), {logits.dim(1)});
    sinkhorn_bias(context_, {logits, bias});
    return bias;
  }

  OpMachine machine_{test::testable_isas().back(), 3, {cpu::add_sinkhorn, cpu::add_routing}};
  OpContext context_ = machine_.context();
};

TEST_F(SinkhornTest, IsTheLogarithmOfTheExpertsFactors) {
  const Tensor logits = skewed_logits();
  const Scaled expected = scale_by_definition(logits);
  const Tensor bias = bias_of(logits), exact = bias_of(to_f64(logits));
  for (int64_t e = 0; e < kExperts; ++e) {
    const double factor = std::log(expected.factors[static_cast<size_t>(e)]);
    EXPECT_NEAR(element(exact, e), factor, 1e-7) << e;
    EXPECT_NEAR(element(bias, e), factor, 2e-6) << e;
  }
}

TEST_F(SinkhornTest, ChoicesByItAreThoseOfTheScaledMatrixAndBalanced) {
  const Tensor logits = skewed_logits();
  const Scaled scaled = scale_by_definition(logits);
  RoutingRule one{.score = ScoreFunction::sigmoid, .topk = 1, .choose_logits = true};
  RoutingRule two{.pre_softmax = true, .topk = 2, .choose_logits = true};
  for (const RoutingRule& rule : {one, two}) {
    const Tensor p = host_tensor(DType::f32, {kTokens, rule.topk}),
                 choice = host_tensor(DType::i32, {kTokens, rule.topk});
    route(context_, {rule, logits, bias_of(logits), p, choice});
    std::vector<int64_t> load(kExperts, 0);
    for (int64_t t = 0; t < kTokens; ++t) {
      const double* row = scaled.matrix.data() + t * kExperts;
      std::vector<size_t> order(kExperts);
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(),
                       [&](size_t a, size_t b) { return row[a] > row[b]; });
      double sum = 0;
      for (int64_t e = 0; e < kExperts; ++e) sum += std::exp(element(logits, t * kExperts + e));
      for (int64_t j = 0; j < rule.topk; ++j) {
        const int64_t e = choice.data<int32_t>()[t * rule.topk + j];
        ++load[static_cast<size_t>(e)];
        ASSERT_EQ(static_cast<size_t>(e), order[static_cast<size_t>(j)]) << t;
        const double x = element(logits, t * kExperts + e);
        EXPECT_NEAR(element(p, t * rule.topk + j),
                    rule.topk == 1 ? 1 / (1 + std::exp(-x)) : std::exp(x) / sum, 1e-6);
      }
    }
    const auto [least, most] = std::minmax_element(load.begin(), load.end());
    EXPECT_GT(*least, kTokens * rule.topk / kExperts / 2);
    EXPECT_LT(*most, kTokens * rule.topk / kExperts * 2);
  }
}

TEST_F(SinkhornTest, HasTheSameBitsWithOneThread) {
  const Tensor logits = skewed_logits();
  OpMachine single{test::testable_isas().back(), 1, {cpu::add_sinkhorn}};
  OpContext context = single.context();
  const Tensor bias = host_tensor(DType::f32, {kExperts});
  sinkhorn_bias(context, {logits, bias});
  EXPECT_EQ(values(bias), values(bias_of(logits)));
}

TEST_F(SinkhornTest, DoesNotDependOnTheOrderOfTokensNorOnTheScaleOfOne) {
  const Tensor logits = skewed_logits(64), other = host_tensor(DType::f32, logits.shape());
  for (int64_t t = 0; t < 64; ++t)
    for (int64_t e = 0; e < kExperts; ++e)
      set_element(other, (63 - t) * kExperts + e,
                  element(logits, t * kExperts + e) + 0.5 * static_cast<double>(t % 5));
  const Tensor a = bias_of(logits), b = bias_of(other);
  for (int64_t e = 0; e < kExperts; ++e) EXPECT_NEAR(element(a, e), element(b, e), 1e-5);
}

TEST_F(SinkhornTest, EndsForLogitsOfAnySize) {
  const Tensor large = host_tensor(DType::f32, {3, 2});
  test::set_values(large, {500, -500, 300, 0, 1000, 1});
  EXPECT_THAT(values(bias_of(large)),
              Each(testing::Truly([](double x) { return std::isfinite(x); })));
  EXPECT_THAT(values(bias_of(host_tensor(DType::f32, {0, 3}))), ElementsAre(0, 0, 0));
  EXPECT_THAT(values(bias_of(host_tensor(DType::f64, {0, 3}))), ElementsAre(0, 0, 0));
  const Tensor nan = skewed_logits(5);
  set_element(nan, 7, std::nan(""));
  EXPECT_THAT(values(bias_of(nan)), Each(testing::Truly([](double x) { return std::isnan(x); })));
  EXPECT_THAT(values(bias_of(to_f64(nan))),
              Each(testing::Truly([](double x) { return std::isnan(x); })));
}

TEST_F(SinkhornTest, RefusesWhatItCannotTake) {
  EXPECT_THROW(
      sinkhorn_bias(context_, {host_tensor(DType::bf16, {2, 3}), host_tensor(DType::bf16, {3})}),
      ShapeError);
  EXPECT_THROW(
      sinkhorn_bias(context_, {host_tensor(DType::f32, {2, 3}), host_tensor(DType::f32, {2})}),
      ShapeError);
  EXPECT_THROW(
      sinkhorn_bias(context_, {host_tensor(DType::f32, {2, 3}), host_tensor(DType::f64, {3})}),
      ShapeError);
  const RoutingRule rule{.groups = 2, .group_topk = 2, .choose_logits = true};
  const RouteArgs args{rule,
                       host_tensor(DType::f32, {2, 4}),
                       {},
                       host_tensor(DType::f32, {2, 2}),
                       host_tensor(DType::i32, {2, 2})};
  EXPECT_THAT([&] { route(context_, args); },
              ThrowsMessage<ShapeError>(HasSubstr("no scores of groups")));
}

}  // namespace
}  // namespace viaduct
