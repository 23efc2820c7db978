#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "data/blend.h"
#include "data/mock_dataset.h"
#include "data/sample.h"
#include "data/sampler.h"
#include "data/split.h"

namespace viaduct {
namespace {

TEST(Split, ParsesWeightsIntoConsecutiveRanges) {
  const SplitFractions fractions = parse_split("90, 8,2");
  EXPECT_EQ(split_range(*fractions[0], 150), (DocumentRange{0, 135}));
  EXPECT_EQ(split_range(*fractions[1], 150), (DocumentRange{135, 147}));
  EXPECT_EQ(split_range(*fractions[2], 150), (DocumentRange{147, 150}));
  EXPECT_FALSE(parse_split("1")[1]);
  EXPECT_FALSE(parse_split("99,1,0")[2]);
  // Python rounds half to even: 0.5 * 5 = 2.5 gives 2.
  EXPECT_EQ(split_range(*parse_split("1,1,0")[0], 5).end, 2);
  EXPECT_EQ(split_range(*parse_split("1,1,0")[0], 7).end, 4);
  for (const char* bad : {"", "a", "1,,2", "1,2,3,4", "0,0,0", "-1,2", "1e999"})
    EXPECT_THAT([&] { parse_split(bad); },
                testing::ThrowsMessage<ConfigError>(testing::HasSubstr("dataset.split: ")))
        << bad;
  EXPECT_EQ(parse_split_name("valid"), Split::valid);
  EXPECT_THROW(parse_split_name("dev"), ConfigError);
}

TEST(Blend, ExhaustiveIndexTakesEachSampleOnce) {
  const std::vector<int64_t> sizes{5, 1, 17};
  const BlendIndex index = build_exhaustive_blend_index(sizes);
  ASSERT_EQ(index.dataset_index.size(), 23u);
  std::vector<int64_t> taken(3);
  for (size_t i = 0; i < 23; ++i) {
    int64_t& count = taken[static_cast<size_t>(index.dataset_index[i])];
    EXPECT_EQ(index.dataset_sample_index[i], count++);
  }
  EXPECT_EQ(taken, sizes);
}

TEST(Blend, SharesStayWithinOneSampleOfTheirWeights) {
  const std::vector<double> weights{0.5, 0.3, 0.15, 0.05};
  const BlendIndex index = build_blend_index(weights, 2000);
  std::vector<double> taken(4);
  for (size_t i = 0; i < 2000; ++i) {
    taken[static_cast<size_t>(index.dataset_index[i])] += 1;
    for (size_t k = 0; k < 4; ++k)
      EXPECT_LT(std::abs(taken[k] - weights[k] * static_cast<double>(i + 1)), 2.0);
  }
}

TEST(Rows, DocumentsSeparateOnlyWhereAsked) {
  Sample row;
  row.tokens = {5, 9, 6, 7, 9, 9, 8, 9};
  fill_masks_and_positions({8, false, false, false, 9}, row);
  EXPECT_EQ(row.cu_seqlens, (std::vector<int32_t>{0, 8}));
  EXPECT_EQ(row.position_ids, (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(row.loss_mask, std::vector<float>(8, 1.0f));
  fill_masks_and_positions({8, true, true, true, 9}, row);
  EXPECT_EQ(row.cu_seqlens, (std::vector<int32_t>{0, 2, 5, 6, 8}));
  EXPECT_EQ(row.position_ids, (std::vector<int32_t>{0, 1, 0, 1, 2, 0, 0, 1}));
  EXPECT_EQ(row.loss_mask, (std::vector<float>{1, 0, 1, 1, 0, 0, 1, 0}));
}

TEST(MockDataset, IsAFunctionOfSeedAndRow) {
  const MockDataset a(100, 50, 1, {33}), b(100, 50, 2, {33});
  std::set<int32_t> seen;
  for (int64_t i = 0; i < 100; ++i) {
    const Sample row = a.get(i);
    ASSERT_EQ(row.tokens.size(), 33u);
    for (size_t t = 0; t + 1 < 33; ++t) EXPECT_EQ(row.labels[t], row.tokens[t + 1]);
    for (const int32_t token : row.tokens) {
      ASSERT_TRUE(token >= 0 && token < 50);
      seen.insert(token);
    }
  }
  EXPECT_EQ(seen.size(), 50u);
  EXPECT_EQ(a.get(7).tokens, a.get(7).tokens);
  EXPECT_NE(a.get(7).tokens, a.get(8).tokens);
  EXPECT_NE(a.get(7).tokens, b.get(7).tokens);
  EXPECT_THROW(a.get(100), ShapeError);
}

TEST(Sampler, GlobalBatchDoesNotDependOnItsCut) {
  const Sampler sampler(1000);
  const std::vector<RowRef> whole = sampler.rows(96, 24);
  for (const int64_t dp : {1, 2, 4}) {
    for (const int64_t size : {1, 2, 3, 6}) {
      std::vector<RowRef> joined;
      const int64_t count = micro_batch_count(24, {size, dp, 0});
      for (int64_t m = 0; m < count; ++m) {
        for (int64_t rank = 0; rank < dp; ++rank) {
          const auto part = micro_batch_rows(sampler, 96, m, {size, dp, rank});
          joined.insert(joined.end(), part.begin(), part.end());
        }
      }
      EXPECT_EQ(joined, whole);
    }
  }
  EXPECT_EQ(whole.front(), (RowRef{96, 96}));
  EXPECT_THROW(micro_batch_count(24, {5, 1, 0}), ConfigError);
}

// The values of torch.manual_seed(seed) and torch.randperm(10).
TEST(Sampler, PermutationsAreTorchs) {
  EXPECT_EQ(torch_permutation(10, 0), (std::vector<int64_t>{4, 1, 7, 5, 3, 9, 0, 8, 6, 2}));
  EXPECT_EQ(torch_permutation(10, 1), (std::vector<int64_t>{5, 6, 1, 2, 0, 8, 9, 3, 7, 4}));
}

TEST(Sampler, ShufflesEachEpochAnewAndLeavesOutWhatFillsNoBatch) {
  const Sampler sampler(10, EpochShuffle{4, 0});
  std::vector<int64_t> rows;
  for (const RowRef& row : sampler.rows(0, 20)) {
    EXPECT_EQ(row.ordinal, static_cast<int64_t>(rows.size()));
    rows.push_back(row.index);
  }
  // Two batches of each epoch: eight rows of its permutation.
  const auto first = torch_permutation(10, 0), second = torch_permutation(10, 1),
             third = torch_permutation(10, 2);
  std::vector<int64_t> expected(first.begin(), first.begin() + 8);
  expected.insert(expected.end(), second.begin(), second.begin() + 8);
  expected.insert(expected.end(), third.begin(), third.begin() + 4);
  EXPECT_EQ(rows, expected);
  // Starting in the middle, as a resumed run does.
  EXPECT_EQ(sampler.rows(9, 3), Sampler(10, EpochShuffle{4, 0}).rows(9, 3));
  EXPECT_EQ(sampler.rows(9, 1)[0], (RowRef{9, second[1]}));
  EXPECT_NE(Sampler(10, EpochShuffle{4, 1234}).rows(0, 8), sampler.rows(0, 8));
  EXPECT_THROW(Sampler(3, EpochShuffle{4, 0}), ConfigError);
}

// A growing batch reads different parts of a pass at a time, some across its end; the rows are the
// same.
TEST(Sampler, APassDoesNotDependOnTheSizesOfBatches) {
  const EpochShuffle shuffle{12, 7};  // the last size of the batch
  const Sampler sampler(50, shuffle);
  const auto expected = sampler.rows(0, 144);  // three passes of 48
  std::vector<RowRef> rows;
  const int64_t sizes[] = {4, 8, 12};
  for (int64_t step = 0; static_cast<int64_t>(rows.size()) < 144; ++step) {
    const auto at = static_cast<int64_t>(rows.size());
    const int64_t size = std::min<int64_t>(sizes[std::min<int64_t>(step / 4, 2)], 144 - at);
    const auto more = sampler.rows(at, size);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  EXPECT_EQ(rows, expected);
  for (int pass = 0; pass < 3; ++pass) {
    std::set<int64_t> seen;
    for (int i = 0; i < 48; ++i) seen.insert(rows[static_cast<size_t>(48 * pass + i)].index);
    EXPECT_EQ(seen.size(), 48u) << "each row once at most";
  }
}

TEST(Sampler, EndsLoudlyOrWraps) {
  EXPECT_EQ(Sampler(10).rows(8, 2).back().index, 9);
  EXPECT_THROW(Sampler(10).rows(8, 3), ConfigError);
  const auto rows = Sampler(10, Sampler::AtEnd::wrap).rows(8, 4);
  EXPECT_EQ(rows[2], (RowRef{10, 0}));
  EXPECT_EQ(rows[3], (RowRef{11, 1}));
  EXPECT_THROW(Sampler(0), ConfigError);
}

}  // namespace
}  // namespace viaduct
