#include "generate/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"

namespace viaduct {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> log_probabilities(std::initializer_list<double> p) {
  std::vector<float> logits;
  for (double x : p)
    logits.push_back(static_cast<float>(std::log(x) + 3.0));  // an offset changes nothing
  return logits;
}

/// Relative frequencies of `draws` draws at positions 0, 1, ….
std::map<int64_t, double> frequencies(const std::vector<float>& logits,
                                      const SamplingOptions& options, int draws = 20000) {
  std::map<int64_t, double> result;
  for (int i = 0; i < draws; ++i)
    result[pick_token(logits, options, {7, 0, static_cast<uint64_t>(i)})] += 1.0 / draws;
  return result;
}

/// Five standard deviations of a frequency over 20000 draws.
double tolerance(double p) {
  return 5 * std::sqrt(p * (1 - p) / 20000);
}

TEST(Sampling, GreedyTakesTheLowestIdOfEquals) {
  EXPECT_EQ(greedy_token(std::vector<float>{-1, 5, 2, 5}), 1);
  EXPECT_EQ(greedy_token(std::vector<float>{-3, -kInfinity}), 0);
  EXPECT_EQ(greedy_token(std::vector<float>{-kInfinity, -3}), 1);
  EXPECT_EQ(pick_token(std::vector<float>{1, 2, 2}, {.temperature = 0}, {1, 2, 3}), 1);
  EXPECT_EQ(pick_token(std::vector<float>{1, 2, 2}, {.top_k = 1}, {1, 2, 3}), 1);
}

TEST(Sampling, GreedyFindsTheLargestAnywhere) {
  for (const size_t size : {31u, 32u, 100u}) {
    for (size_t at = 0; at < size; ++at) {
      std::vector<float> logits(size, -2.0f);
      logits[at] = -1;
      EXPECT_EQ(greedy_token(logits), static_cast<int64_t>(at));
      for (const float bad : {kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
        logits[at] = bad;
        EXPECT_THROW(greedy_token(logits), DeviceError) << at << " of " << size;
      }
    }
  }
}

TEST(Sampling, FollowsTheSoftmax) {
  const auto logits = log_probabilities({0.5, 0.3, 0.15, 0.05});
  const auto found = frequencies(logits, {});
  const double expected[] = {0.5, 0.3, 0.15, 0.05};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(found.at(i), expected[i], tolerance(expected[i])) << i;
}

TEST(Sampling, TemperatureSharpensAndFlattens) {
  const auto logits = log_probabilities({0.8, 0.2});
  // p^(1/T): at T = 0.5 the ratio is 0.64 : 0.04, at T = 2 it is √0.8 : √0.2 = 2 : 1.
  EXPECT_NEAR(frequencies(logits, {.temperature = 0.5}).at(0), 16.0 / 17, tolerance(16.0 / 17));
  EXPECT_NEAR(frequencies(logits, {.temperature = 2}).at(0), 2.0 / 3, tolerance(2.0 / 3));
}

TEST(Sampling, TopKKeepsTheMostLikelyAndRenormalizes) {
  const auto logits = log_probabilities({0.1, 0.4, 0.2, 0.3});
  const auto found = frequencies(logits, {.top_k = 2});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NEAR(found.at(1), 4.0 / 7, tolerance(4.0 / 7));
  EXPECT_NEAR(found.at(3), 3.0 / 7, tolerance(3.0 / 7));
  EXPECT_EQ(frequencies(logits, {.top_k = 100}).size(), 4u);
  // Of equal logits the lower ids are kept.
  const auto equal = frequencies({1, 1, 1, 1, 1}, {.top_k = 3}, 500);
  EXPECT_EQ(equal.size(), 3u);
  EXPECT_EQ(equal.rbegin()->first, 2);
}

TEST(Sampling, TopPKeepsTheNucleusWithTheTokenThatCrosses) {
  const auto logits = log_probabilities({0.1, 0.4, 0.2, 0.3});
  auto found = frequencies(logits, {.top_p = 0.65});  // 0.4 + 0.3 reach it
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NEAR(found.at(1), 4.0 / 7, tolerance(4.0 / 7));
  found = frequencies(logits, {.top_p = 0.75});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found.count(0), 0u);
  EXPECT_EQ(frequencies(logits, {.top_p = 1e-9}, 200).begin()->first, 1);
  EXPECT_EQ(frequencies(logits, {.top_p = 1e-9}, 200).size(), 1u);
  EXPECT_EQ(frequencies(logits, {.top_p = 0.99}).size(), 4u);
}

TEST(Sampling, TopPCountsShareOfWhatTopKLeft) {
  const auto logits = log_probabilities({0.1, 0.4, 0.2, 0.3});
  // Of {0.4, 0.3} the first has 4/7 = 0.571: alone it reaches 0.55 but not 0.6.
  EXPECT_EQ(frequencies(logits, {.top_k = 2, .top_p = 0.55}, 200).size(), 1u);
  EXPECT_EQ(frequencies(logits, {.top_k = 2, .top_p = 0.6}, 200).size(), 2u);
}

TEST(Sampling, IsAFunctionOfSeedSequenceAndPosition) {
  const std::vector<float> logits(1000, 0.0f);
  const SamplingOptions options;
  EXPECT_EQ(pick_token(logits, options, {1, 2, 3}), pick_token(logits, options, {1, 2, 3}));
  std::set<int64_t> picked{
      pick_token(logits, options, {1, 2, 3}), pick_token(logits, options, {2, 2, 3}),
      pick_token(logits, options, {1, 3, 3}), pick_token(logits, options, {1, 2, 4})};
  EXPECT_EQ(picked.size(), 4u);
}

TEST(Sampling, NeverPicksMinusInfinity) {
  const auto found = frequencies({-kInfinity, 0, -kInfinity, 0}, {}, 1000);
  EXPECT_EQ(found.size(), 2u);
  EXPECT_EQ(found.count(0) + found.count(2), 0u);
}

TEST(Sampling, HugeRangesStayFinite) {
  EXPECT_EQ(pick_token(std::vector<float>{-3e38f, 3e38f, 0}, {.temperature = 1e-30}, {}), 1);
  EXPECT_EQ(pick_token(std::vector<float>{-3e38f, -3e38f}, {.top_p = 0.4}, {}), 0);
}

TEST(Sampling, APenaltyLowersTheLogitsOfSeenTokensOnce) {
  SeenTokens seen(4);
  for (const int32_t id : {2, 0, 2, 2}) seen.add(id);
  EXPECT_EQ(seen.ids(), (std::vector<int32_t>{2, 0}));
  std::vector<float> logits{3, 3, -2, 0};
  penalize(logits, seen, 1.5);
  EXPECT_EQ(logits, (std::vector<float>{2, 3, -3, 0}));
  penalize(logits, seen, 1);
  EXPECT_EQ(logits, (std::vector<float>{2, 3, -3, 0}));
  EXPECT_THROW(seen.add(4), ShapeError);
  EXPECT_THROW(seen.add(-1), ShapeError);
  for (const double penalty : {0.0, -1.0, static_cast<double>(NAN)})
    EXPECT_THROW(check({.repetition_penalty = penalty}), ConfigError);
}

TEST(Sampling, RefusesBadLogitsAndOptions) {
  const std::vector<float> nan{0, NAN, 0}, none, low{-kInfinity, -kInfinity}, high{0, kInfinity};
  for (double temperature : {0.0, 1.0}) {
    EXPECT_THROW(pick_token(nan, {.temperature = temperature}, {}), DeviceError);
    EXPECT_THROW(pick_token(high, {.temperature = temperature}, {}), DeviceError);
    EXPECT_THROW(pick_token(low, {.temperature = temperature}, {}), DeviceError);
    EXPECT_THROW(pick_token(none, {.temperature = temperature}, {}), ShapeError);
  }
  try {
    pick_token(std::vector<float>{1}, {.temperature = -1, .top_k = -1, .top_p = 0}, {});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.problems().size(), 3u);
  }
  EXPECT_THROW(check(SamplingOptions{.top_p = NAN}), ConfigError);
}

}  // namespace
}  // namespace viaduct
