// Span corruption, against numbers of the paper's code and its figure.

#include "data/span_corruption.h"

#include <gmock/gmock.h>

#include <map>
#include <numeric>

#include "base/error.h"
#include "data/row_draws.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using Ids = std::vector<int32_t>;
using Mask = std::vector<uint8_t>;

/// "Thank you for inviting me to your party last week", tokens 10, 11, …; 99 is <X>, 98 <Y>, 97
/// <Z>.
TEST(SpanCorruption, IsThatOfThePapersFigure) {
  const Ids text{10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
  const CorruptedText made = corrupt_spans(text, Mask{0, 0, 1, 1, 0, 0, 0, 0, 1, 0}, 99);
  EXPECT_THAT(made.input, ElementsAre(10, 11, 99, 14, 15, 16, 17, 98, 19));
  EXPECT_THAT(made.target, ElementsAre(99, 12, 13, 98, 18, 97));
}

/// Masks that are drawn end with noise, so that no sentinel closes the target.
TEST(SpanCorruption, ATextThatEndsWithNoiseHasNoClosingSentinel) {
  const CorruptedText made = corrupt_spans(Ids{10, 11, 12, 13, 14}, Mask{0, 1, 0, 0, 1}, 99);
  EXPECT_THAT(made.input, ElementsAre(10, 99, 12, 13, 98));
  EXPECT_THAT(made.target, ElementsAre(99, 11, 98, 14));
}

/// T5's published setting: 568 tokens become 512 and 114.
TEST(SpanCorruption, LengthsAreThoseOfThePapersCode) {
  const auto expect = [](int64_t input, const SpanNoise& noise, int64_t tokens, int64_t target,
                         int64_t spans) {
    const SpanLengths lengths = span_lengths(input, 1, noise);
    EXPECT_EQ(lengths.tokens, tokens) << input;
    EXPECT_EQ(lengths.target, target) << input;
    EXPECT_EQ(lengths.spans, spans) << input;
    EXPECT_LE(lengths.input, input) << input;
  };
  expect(512, {}, 568, 114, 28);
  expect(128, {}, 141, 29, 7);          // 141 · 0.15 = 21.15 → 21; 21 / 3 = 7; 120 + 7 + 1 = 128
  expect(16, {}, 17, 5, 1);             // 17 · 0.15 = 2.55 → 3; 3 / 3 = 1; 14 + 1 + 1
  expect(100, {0.5, 3}, 148, 100, 25);  // 74 / 3 → 25; 74 + 25 + 1 = 100 on both sides
  expect(3, {}, 2, 3, 1);               // the smallest: a token of each kind
  EXPECT_EQ(span_lengths(512, 0, {}).tokens, 569);  // without an end token: 484 + 28 = 512
  EXPECT_THROW(span_lengths(2, 1, {}), ShapeError);
  EXPECT_THROW(span_counts(1, {}), ShapeError);
}

TEST(SpanCorruption, CountsAreRoundedToEvenAndNeverNone) {
  EXPECT_EQ(span_counts(10, {0.25, 3}).noise, 2);  // 2.5
  EXPECT_EQ(span_counts(14, {0.25, 3}).noise, 4);  // 3.5
  EXPECT_EQ(span_counts(20, {0.5, 4}).spans, 2);   // 10 / 4 = 2.5
  EXPECT_EQ(span_counts(5, {0.01, 3}).noise, 1);
  EXPECT_EQ(span_counts(5, {0.01, 3}).spans, 1);
  EXPECT_EQ(span_counts(4, {0.9, 1}).noise, 3);  // 3.6 → 4: one token stays
  EXPECT_EQ(span_counts(4, {0.9, 1}).spans, 1);  // before each span there is another token
}

TEST(SpanCorruption, RunsTakeTurnsWithTheCountsThatFollow) {
  for (int64_t row = 0; row < 50; ++row) {
    RowDraws draws(7, row);
    const int64_t tokens = 20 + row;
    const SpanNoise noise{.density = 0.3, .mean_length = 2};
    const Mask mask = random_spans_noise_mask(tokens, noise, draws);
    const SpanCounts counts = span_counts(tokens, noise);
    ASSERT_EQ(static_cast<int64_t>(mask.size()), tokens);
    EXPECT_EQ(std::accumulate(mask.begin(), mask.end(), int64_t{0}), counts.noise);
    EXPECT_EQ(mask.front(), 0);
    EXPECT_EQ(mask.back(), 1);
    int64_t spans = 0;
    for (size_t t = 1; t < mask.size(); ++t) spans += mask[t] == 1 && mask[t - 1] == 0 ? 1 : 0;
    EXPECT_EQ(spans, counts.spans);
  }
}

/// 7 tokens with 3 of noise in 2 spans: 2 ways to cut the noise, 3 to cut the others.
TEST(SpanCorruption, AllMasksAreEquallyLikely) {
  constexpr int kDraws = 3000;
  std::map<Mask, int> seen;
  for (int64_t row = 0; row < kDraws; ++row) {
    RowDraws draws(11, row);
    ++seen[random_spans_noise_mask(7, {.density = 0.43, .mean_length = 1.5}, draws)];
  }
  ASSERT_EQ(seen.size(), 6u);
  // 5 standard deviations of a binomial of 1/6 are 102.
  for (const auto& [mask, count] : seen) EXPECT_NEAR(count, kDraws / 6, 102);
}

}  // namespace
}  // namespace viaduct
