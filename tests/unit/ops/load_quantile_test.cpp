// The bias that gives every expert an equal share of a step's tokens: against the order statistic
// of all margins in FP64, by published numbers, and by the load that choices with it have.

#include "ops/load_quantile.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ops/reference/reference.h"
#include "ops/routing.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::element;
using test::integers;
using test::OpMachine;
using test::random_tensor;
using test::set_element;
using test::set_values;
using test::to_f64;
using test::values;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kTokens = 1500, kExperts = 13, kBins = 1000;  // more than one task

/// Logits whose experts have very different means: without balance few of them get all tokens.
Tensor skewed_logits(int64_t tokens = kTokens) {
  const Tensor logits = random_tensor(DType::f32, {tokens, kExperts}, 4, 1.5);
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t e = 0; e < kExperts; ++e)
      set_element(logits, t * kExperts + e,
                  element(logits, t * kExperts + e) + 0.3 * static_cast<double>(e));
  return logits;
}

Tensor some_bias() {
  const Tensor bias = random_tensor(DType::f32, {kExperts}, 9, 0.2);
  set_element(bias, 3, -0.7);
  return bias;
}

/// All margins of each expert in FP64, in ascending order: the k + 1-th best by a full sort.
std::vector<std::vector<double>> margins_of(const Tensor& logits, const Tensor& bias, int64_t k) {
  std::vector<std::vector<double>> margins(static_cast<size_t>(logits.dim(1)));
  for (int64_t t = 0; t < logits.dim(0); ++t) {
    std::vector<double> score(margins.size()), biased(margins.size());
    for (size_t e = 0; e < score.size(); ++e) {
      const auto i = static_cast<int64_t>(e);
      score[e] = 0.5 + 0.5 * std::tanh(element(logits, t * logits.dim(1) + i) / 2);
      biased[e] = score[e] + element(bias, i);
    }
    std::sort(biased.rbegin(), biased.rend());
    for (size_t e = 0; e < score.size(); ++e)
      margins[e].push_back(biased[static_cast<size_t>(k)] - score[e]);
  }
  for (auto& of_expert : margins) std::sort(of_expert.begin(), of_expert.end());
  return margins;
}

class LoadQuantileTest : public testing::Test {
 protected:
  Tensor counted(const Tensor& logits, const Tensor& bias, int64_t k, int64_t bins = kBins) {
    const Tensor histogram = host_tensor(DType::i64, {bias.dim(0), bins});
    set_values(histogram, std::vector<double>(static_cast<size_t>(histogram.elements()), 7));
    count_margins(context_, {logits, bias, histogram, k, WriteMode::assign});
    return histogram;
  }
  Tensor quantiles(const Tensor& histogram, const Tensor& bias, int64_t k) {
    const Tensor out = host_tensor(bias.dtype(), bias.shape());
    quantile_bias(context_, {histogram, bias, out, k});
    return out;
  }

  OpMachine machine_{test::testable_isas().back(), 3, {cpu::add_load_quantile, cpu::add_routing}};
  OpContext context_ = machine_.context();
};

TEST_F(LoadQuantileTest, IsTheOrderStatisticOfAllMarginsToTheWidthOfABin) {
  const Tensor logits = skewed_logits(), bias = some_bias();
  const auto b = values(bias);
  const double width = (0.7 + *std::ranges::max_element(b) + 2) / kBins;
  for (const int64_t k : {int64_t{1}, int64_t{4}, kExperts - 1}) {
    std::vector<double> expected;
    for (const auto& margins : margins_of(logits, bias, k)) {
      const double place = double(kTokens * k) / kExperts;
      expected.push_back(margins.at(static_cast<size_t>(std::ceil(place)) - 1));
    }
    const double mean = std::accumulate(expected.begin(), expected.end(), 0.0) / kExperts;
    const Tensor got = quantiles(counted(logits, bias, k), bias, k);
    const Tensor exact = quantiles(counted(to_f64(logits), to_f64(bias), k), to_f64(bias), k);
    for (int64_t e = 0; e < kExperts; ++e) {
      const double value = expected[static_cast<size_t>(e)] - mean;
      EXPECT_NEAR(element(exact, e), value, 1.5 * width) << k << " " << e;
      EXPECT_NEAR(element(got, e), value, 1.5 * width) << k << " " << e;
    }
    const auto all = values(got);
    EXPECT_NEAR(std::accumulate(all.begin(), all.end(), 0.0), 0, 1e-5);
  }
}

TEST_F(LoadQuantileTest, CountsEveryMarginOnceInItsBin) {
  const Tensor logits = skewed_logits(200), bias = some_bias();
  const auto b = values(bias);
  const double low = *std::ranges::min_element(b) - 1, high = *std::ranges::max_element(b) + 1;
  constexpr int64_t kFew = 40;
  const Tensor exact = counted(to_f64(logits), to_f64(bias), 3, kFew);
  const Tensor got = counted(logits, bias, 3, kFew);
  const auto margins = margins_of(logits, bias, 3);
  double apart = 0;
  for (int64_t e = 0; e < kExperts; ++e) {
    for (int64_t i = 0; i < kFew; ++i) {
      const auto edge = [&](int64_t at) { return low + (high - low) * double(at) / kFew; };
      const auto expected = std::ranges::count_if(margins[static_cast<size_t>(e)], [&](double m) {
        return m >= edge(i) && m < edge(i + 1);
      });
      EXPECT_EQ(element(exact, e * kFew + i), expected) << e << " " << i;
      apart += std::abs(element(got, e * kFew + i) - static_cast<double>(expected));
    }
  }
  EXPECT_LE(apart, 4) << "a margin at an edge may round to either side";
}

TEST_F(LoadQuantileTest, PaddingIsNotCounted) {
  const Tensor logits = skewed_logits(200), bias = some_bias();
  std::vector<int64_t> index(200, 5);
  std::fill(index.begin() + 120, index.end(), -1);
  const Tensor padded = integers(DType::i64, index);
  const Tensor expected = counted(logits.slice(0, 0, 120), bias, 3);
  for (const bool exact : {false, true}) {
    const Tensor got = host_tensor(DType::i64, {kExperts, kBins});
    const Tensor x = exact ? to_f64(logits) : logits, b = exact ? to_f64(bias) : bias;
    count_margins(context_, {x, b, got, 3, WriteMode::assign, padded});
    EXPECT_EQ(values(got), values(exact ? counted(x.slice(0, 0, 120), b, 3) : expected));
  }
}

/// The numbers of the test that Megatron-Core has for its histogram.
TEST_F(LoadQuantileTest, FindsThePlaceInsideABinAndCentersTheBias) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor bias = host_tensor(dtype, {2});
    set_values(bias, {0, 0});
    const Tensor counts = integers(DType::i64, {0, 2, 2, 0, 2, 2, 0, 0}).view({2, 4});
    EXPECT_THAT(values(quantiles(counts, bias, 1)), ElementsAre(0.25, -0.25));
    // A quarter of the tokens more in the first bin: half of 5 lies a quarter into the second.
    const Tensor more = integers(DType::i64, {2, 2, 1, 0, 2, 2, 1, 0}).view({2, 4});
    EXPECT_THAT(values(quantiles(more, bias, 1)), ElementsAre(0, 0));
    const Tensor third = host_tensor(dtype, {3});
    set_values(third, {0, 0, 0});
    const Tensor few = integers(DType::i64, {3, 0, 0, 3, 0, 3}).view({3, 2});
    // 1 of 3 tokens: a third into a bin of width 1.
    EXPECT_THAT(values(quantiles(few, third, 1)),
                ElementsAre(testing::DoubleNear(-2.0 / 3, 1e-7), testing::DoubleNear(1.0 / 3, 1e-7),
                            testing::DoubleNear(1.0 / 3, 1e-7)));
  }
}

TEST_F(LoadQuantileTest, ChoicesWithItHaveEqualLoad) {
  constexpr int64_t kChosen = 3;
  const Tensor logits = skewed_logits();
  Tensor bias = host_tensor(DType::f32, {kExperts});
  set_values(bias, std::vector<double>(kExperts, 0));
  const RoutingRule rule{.score = ScoreFunction::sigmoid, .topk = kChosen};
  const Tensor p = host_tensor(DType::f32, {kTokens, kChosen}),
               choice = host_tensor(DType::i32, {kTokens, kChosen});
  const auto largest_load = [&] {
    route(context_, {rule, logits, bias, p, choice});
    std::vector<int64_t> load(kExperts, 0);
    for (int64_t i = 0; i < choice.elements(); ++i)
      ++load[static_cast<size_t>(choice.data<int32_t>()[i])];
    return double(*std::ranges::max_element(load)) * kExperts / double(kTokens * kChosen);
  };
  const double before = largest_load();
  EXPECT_GT(before, 1.8);
  bias = quantiles(counted(logits, bias, kChosen), bias, kChosen);
  const double after_one = largest_load();
  EXPECT_LT(after_one - 1, 0.3 * (before - 1));
  for (int update = 1; update < 8; ++update)
    bias = quantiles(counted(logits, bias, kChosen), bias, kChosen);
  EXPECT_LT(largest_load() - 1, 0.1 * (before - 1));
}

TEST_F(LoadQuantileTest, IsTheSameInAnyOrderAndOnAnyNumberOfThreads) {
  const Tensor logits = skewed_logits(), bias = some_bias();
  const Tensor whole = counted(logits, bias, 2);
  const Tensor parts = counted(logits.slice(0, 900, kTokens - 900), bias, 2);
  count_margins(context_, {logits.slice(0, 0, 900), bias, parts, 2});
  EXPECT_EQ(values(parts), values(whole));
  OpMachine single{test::testable_isas().back(), 1, {cpu::add_load_quantile}};
  OpContext context = single.context();
  const Tensor other = host_tensor(DType::i64, whole.shape());
  set_values(other, std::vector<double>(static_cast<size_t>(other.elements()), 0));
  count_margins(context, {logits, bias, other, 2});
  EXPECT_EQ(values(other), values(whole));
  const Tensor out = host_tensor(DType::f32, {kExperts});
  quantile_bias(context, {other, bias, out, 2});
  EXPECT_EQ(values(out), values(quantiles(whole, bias, 2)));
}

TEST_F(LoadQuantileTest, LeavesOutTokensWithoutNumbersAndKeepsABiasWithoutTokens) {
  const Tensor logits = skewed_logits(5), bias = some_bias();
  const Tensor without = counted(logits.slice(0, 1, 4), bias, 2);
  set_element(logits, 7, std::nan(""));
  EXPECT_EQ(values(counted(logits, bias, 2)), values(without));
  EXPECT_EQ(values(counted(to_f64(logits), to_f64(bias), 2)),
            values(counted(to_f64(logits).slice(0, 1, 4), to_f64(bias), 2)));
  const Tensor none = counted(host_tensor(DType::f32, {0, kExperts}), bias, 2);
  EXPECT_THAT(values(none), Each(0));
  const auto b = values(bias);
  const double mean = std::accumulate(b.begin(), b.end(), 0.0) / kExperts;
  for (const Tensor& kept : {quantiles(none, bias, 2), quantiles(none, to_f64(bias), 2)})
    for (size_t e = 0; e < b.size(); ++e)
      EXPECT_NEAR(element(kept, static_cast<int64_t>(e)), b[e] - mean, 1e-7);
}

TEST_F(LoadQuantileTest, HasABinForEveryScore) {
  const Tensor logits = host_tensor(DType::f32, {2, 3}), bias = host_tensor(DType::f32, {3});
  set_values(logits, {1000, -1000, 0, -1000, -1000, 1000});
  set_values(bias, {-2, 5, -3});
  for (const Tensor& histogram : {counted(logits, bias, 1, 7), counted(logits, bias, 2, 7),
                                  counted(to_f64(logits), to_f64(bias), 1, 7)}) {
    for (int64_t e = 0; e < 3; ++e) {
      const auto row = values(histogram.slice(0, e, 1));
      EXPECT_EQ(std::accumulate(row.begin(), row.end(), 0.0), 2) << e;
    }
  }
}

TEST_F(LoadQuantileTest, RefusesWhatItCannotTake) {
  const Tensor logits = host_tensor(DType::f32, {2, 3}), bias = host_tensor(DType::f32, {3}),
               histogram = host_tensor(DType::i64, {3, 4});
  EXPECT_THAT(
      [&] {
        count_margins(context_, {logits, bias, histogram, 3});
      },
      ThrowsMessage<ShapeError>(HasSubstr("expected 1 to 2 of 3 experts")));
  EXPECT_THROW(count_margins(context_, {logits, to_f64(bias), histogram, 1}), ShapeError);
  EXPECT_THROW(count_margins(context_, {logits, bias, host_tensor(DType::i32, {3, 4}), 1}),
               ShapeError);
  EXPECT_THROW(count_margins(context_, {logits, bias, host_tensor(DType::i64, {2, 4}), 1}),
               ShapeError);
  EXPECT_THROW(quantile_bias(context_, {histogram, bias, host_tensor(DType::f64, {3}), 1}),
               ShapeError);
  EXPECT_THROW(quantile_bias(context_, {histogram, bias, host_tensor(DType::f32, {4}), 1}),
               ShapeError);
}

}  // namespace
}  // namespace viaduct
