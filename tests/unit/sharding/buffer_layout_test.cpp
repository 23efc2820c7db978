// The layout of buffers compared with handmade tables, and invariants of every layout.

#include "sharding/buffer_layout.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "base/error.h"

namespace viaduct {
namespace {

using Place = BufferLayout::Place;

TEST(BufferLayout, FromTheLastParameterToTheFirst) {
  const BufferLayout layout = make_buffer_layout({{100}, {64}, {10}}, {.shards = 2});
  // Starts are multiples of 64: 10 at 0, 64 at 64, 100 at 128; the end 228 becomes 256.
  EXPECT_EQ(layout.parameters, (std::vector<Place>{{{128, 228}, 0}, {{64, 128}, 0}, {{0, 10}, 0}}));
  EXPECT_EQ(layout.buckets, (std::vector<Range>{{0, 256}}));
  EXPECT_EQ(layout.shard(0, 0), (Range{0, 128}));
  EXPECT_EQ(layout.shard(0, 1), (Range{128, 256}));
}

TEST(BufferLayout, NoGroupIsInTwoShards) {
  const auto shards_of = [](int64_t multiple) {
    return make_buffer_layout({{1000}}, {.shards = 8, .shard_multiple = multiple});
  };
  EXPECT_EQ(shards_of(1).shard(0, 1), (Range{128, 256}));
  EXPECT_EQ(make_buffer_layout({{100}}, {.shards = 8}).shard(0, 1), (Range{16, 32}));
  EXPECT_EQ(make_buffer_layout({{100}}, {.shards = 8, .shard_multiple = 64}).shard(0, 1),
            (Range{64, 128}));
  EXPECT_EQ(shards_of(64).buckets, (std::vector<Range>{{0, 1024}}));
}

TEST(BufferLayout, ABucketClosesWithTheParameterThatFillsIt) {
  const LayoutSettings settings{.shards = 3, .bucket_elements = 300};
  const BufferLayout layout = make_buffer_layout({{50}, {500}, {200}, {100}, {90}}, settings);
  // 90 at 0, 100 at 128: 228 are too few; 200 at 256: 456 ≥ 300 closes, and lcm(3, 128) = 384
  // makes the end 768. 500 alone fills the next, 768 … 1268, to 768 + 768. 50 is left over.
  EXPECT_EQ(
      layout.parameters,
      (std::vector<Place>{
          {{1536, 1586}, 2}, {{768, 1268}, 1}, {{256, 456}, 0}, {{128, 228}, 0}, {{0, 90}, 0}}));
  EXPECT_EQ(layout.buckets, (std::vector<Range>{{0, 768}, {768, 1536}, {1536, 1920}}));
  EXPECT_EQ(layout.shard(1, 2), (Range{1280, 1536}));
}

TEST(BufferLayout, AFullBucketIsCountedFromItsBeginWithPadding) {
  // 65 + 64 are 129 elements, but reach 192 − 0 with the second's start at 128.
  const auto buckets = [](int64_t size) {
    return make_buffer_layout({{64}, {64}, {65}}, {.shards = 1, .bucket_elements = size})
        .buckets.size();
  };
  EXPECT_EQ(buckets(192), 2u);
  EXPECT_EQ(buckets(193), 1u);
}

TEST(BufferLayout, WithoutShardsNothingIsPadded) {
  const LayoutSettings settings{.shards = 1, .padded = false, .bucket_elements = 100};
  const BufferLayout layout = make_buffer_layout({{7}, {99}, {3}}, settings);
  EXPECT_EQ(layout.parameters, (std::vector<Place>{{{102, 109}, 1}, {{3, 102}, 0}, {{0, 3}, 0}}));
  EXPECT_EQ(layout.buckets, (std::vector<Range>{{0, 102}, {102, 109}}));
}

TEST(BufferLayout, ABucketHoldsOneUnit) {
  const LayoutSettings settings{.shards = 2, .bucket_elements = 0};
  const auto of = [](int64_t elements, int unit) {
    return LayoutParameter{.elements = elements, .unit = unit};
  };
  const BufferLayout layout =
      make_buffer_layout({of(10, 0), of(20, 1), of(30, 1), of(200, 2)}, settings);
  EXPECT_EQ(layout.buckets, (std::vector<Range>{{0, 256}, {256, 384}, {384, 512}}));
  EXPECT_EQ(layout.parameters,
            (std::vector<Place>{{{384, 394}, 2}, {{320, 340}, 1}, {{256, 286}, 1}, {{0, 200}, 0}}));
}

TEST(BufferLayout, WhatOtherStagesHoldIsAloneInItsBucket) {
  const LayoutSettings settings{.shards = 2, .bucket_elements = 0};
  const BufferLayout layout =
      make_buffer_layout({{10}, {.elements = 300, .own_bucket = true}, {20}}, settings);
  EXPECT_EQ(layout.buckets, (std::vector<Range>{{0, 128}, {128, 512}, {512, 640}}));
  EXPECT_EQ(layout.parameters,
            (std::vector<Place>{{{512, 522}, 2}, {{128, 428}, 1}, {{0, 20}, 0}}));
  // The first and the last of all: no empty buckets.
  EXPECT_EQ(make_buffer_layout({{.elements = 5, .own_bucket = true}}, settings).buckets,
            (std::vector<Range>{{0, 128}}));
}

TEST(BufferLayout, EndsForBusBandwidth) {
  const LayoutSettings settings{.shards = 3, .pad_for_bus_bandwidth = true};
  EXPECT_EQ(make_buffer_layout({{5}}, settings).elements(), 3 * 65536);
}

TEST(BufferLayout, FourRangesOfAParameterInAShard) {
  const LayoutSettings settings{.shards = 2, .bucket_elements = 100};
  // Last first: 100 at 0 closes bucket 0 at 128; 300 at 128 ends at 428, bucket 1 is 128 … 512 and
  // its shards are 128 … 320 and 320 … 512.
  const BufferLayout layout = make_buffer_layout({{300}, {100}}, settings);
  EXPECT_EQ(shard_ranges(layout, 0, 0), (ShardRanges{{128, 320}, {0, 192}, {0, 192}, {0, 192}}));
  EXPECT_EQ(shard_ranges(layout, 0, 1),
            (ShardRanges{{320, 428}, {192, 300}, {0, 108}, {192, 300}}));
  EXPECT_EQ(shard_ranges(layout, 1, 1), (ShardRanges{{64, 100}, {64, 100}, {0, 36}, {64, 100}}));
  const BufferLayout small = make_buffer_layout({{10}}, settings);
  EXPECT_EQ(shard_ranges(small, 0, 0)->in_parameter, (Range{0, 10}));
  EXPECT_EQ(shard_ranges(small, 0, 1), std::nullopt);
}

TEST(BufferLayout, SizesThatMakeNoSenseAreErrors) {
  EXPECT_THROW(make_buffer_layout({{1}}, {.shards = 2, .padded = false}), ShapeError);
  EXPECT_THROW(make_buffer_layout({{1}}, {.shards = 0}), ShapeError);
  EXPECT_THROW(make_buffer_layout({{0}}, {}), ShapeError);
}

class EveryLayout : public testing::TestWithParam<int> {};

TEST_P(EveryLayout, CoversEachParameterOnceInEqualShards) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  for (int round = 0; round < 50; ++round) {
    std::vector<LayoutParameter> parameters(1 + random() % 12);
    for (auto& p : parameters) p = {1 + static_cast<int64_t>(random() % 700), random() % 6 == 0};
    const LayoutSettings settings{.shards = GetParam(),
                                  .bucket_elements = static_cast<int64_t>(random() % 1000)};
    const BufferLayout layout = make_buffer_layout(parameters, settings);

    int64_t end = 0;
    for (const Range& bucket : layout.buckets) {
      EXPECT_EQ(bucket.begin, end);
      EXPECT_EQ(bucket.size() % (128 * GetParam() / std::gcd(128, GetParam())), 0);
      end = bucket.end;
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Place& place = layout.parameters[i];
      const Range& bucket = layout.buckets[place.bucket];
      EXPECT_EQ(place.range.size(), parameters[i].elements);
      EXPECT_EQ(place.range.begin % 64, 0);
      EXPECT_TRUE(bucket.begin <= place.range.begin && place.range.end <= bucket.end);
      if (i > 0) {
        const Place& before = layout.parameters[i - 1];
        EXPECT_LE(place.range.end, before.range.begin);
        EXPECT_FALSE(parameters[i].own_bucket && place.bucket == before.bucket);
      }

      int64_t at = 0;  // the shards' runs follow one another and cover the parameter
      for (int shard = 0; shard < GetParam(); ++shard) {
        const auto ranges = shard_ranges(layout, i, shard);
        if (!ranges) continue;
        const Range own = layout.shard(place.bucket, shard);
        EXPECT_EQ(ranges->in_parameter.begin, at);
        EXPECT_EQ(ranges->in_buffer.begin, place.range.begin + at);
        EXPECT_EQ(ranges->in_bucket.begin, ranges->in_buffer.begin - bucket.begin);
        EXPECT_EQ(ranges->in_shard.begin, ranges->in_buffer.begin - own.begin);
        EXPECT_LE(ranges->in_shard.end, own.size());
        for (const Range& r : {ranges->in_buffer, ranges->in_bucket, ranges->in_shard})
          EXPECT_EQ(r.size(), ranges->in_parameter.size());
        at = ranges->in_parameter.end;
      }
      EXPECT_EQ(at, parameters[i].elements);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, EveryLayout, testing::Values(1, 2, 3, 5, 8, 12));

}  // namespace
}  // namespace viaduct
