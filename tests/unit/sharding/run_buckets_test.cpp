// Which runs are offloaded to the second memory, and how they are updated together.

#include "sharding/run_buckets.h"

#include <gtest/gtest.h>

namespace viaduct {
namespace {

std::vector<RunSize> runs() {
  return {{100, 0, 0}, {50, 0, 0}, {10, 0, 1}, {10, 0, 1}, {30, 1, 2}};  // 200 elements
}

TEST(RunBuckets, WithoutOffloadAChunkIsOneOfEachUnit) {
  EXPECT_EQ(run_buckets(runs(), 0, 1),
            (std::vector<RunBucket>{{0, 2, false}, {2, 4, false}, {4, 5, false}}));
  EXPECT_TRUE(run_buckets({}, 1, 1).empty());
}

TEST(RunBuckets, ARunLeavesWhereThoseBeforeItAndItAreWithinTheFraction) {
  // 100 of 200, and nothing more.
  EXPECT_EQ(run_buckets(runs(), 0.5, 1000),
            (std::vector<RunBucket>{{0, 1, true}, {1, 2, false}, {2, 4, false}, {4, 5, false}}));
  // Below 100 the first stays; the second and the two small ones are offloaded.
  EXPECT_EQ(run_buckets(runs(), 0.35, 1000),
            (std::vector<RunBucket>{{0, 1, false}, {1, 2, true}, {2, 4, true}, {4, 5, false}}));
}

TEST(RunBuckets, AllLeaveInBucketsOfBoundedSize) {
  EXPECT_EQ(run_buckets(runs(), 1, 150),
            (std::vector<RunBucket>{{0, 2, true}, {2, 4, true}, {4, 5, true}}));
  EXPECT_EQ(run_buckets(runs(), 1, 149),
            (std::vector<RunBucket>{{0, 1, true}, {1, 2, true}, {2, 4, true}, {4, 5, true}}));
  // A run is not cut.
  EXPECT_EQ(run_buckets(runs(), 1, 1).size(), 5u);
}

}  // namespace
}  // namespace viaduct
