#include "data/numpy_random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace viaduct {
namespace {

TEST(NumpyRandomState, ShufflesAsNumpy) {
  // numpy.random.RandomState(0).permutation(10), as in NumPy's documentation and many tutorials.
  std::vector<int> values(10);
  std::iota(values.begin(), values.end(), 0);
  NumpyRandomState(0).shuffle(std::span<int>(values));
  EXPECT_EQ(values, (std::vector<int>{2, 8, 4, 9, 1, 6, 7, 3, 0, 5}));
}

TEST(NumpyRandomState, ShuffleKeepsEveryElement) {
  for (const size_t size : {0, 1, 2, 3, 1000}) {
    std::vector<size_t> values(size);
    std::iota(values.begin(), values.end(), size_t{0});
    NumpyRandomState(99).shuffle(std::span<size_t>(values));
    std::sort(values.begin(), values.end());
    for (size_t i = 0; i < size; ++i) EXPECT_EQ(values[i], i);
  }
}

TEST(NumpyRandomState, IntervalsIncludeTheirMaximum) {
  NumpyRandomState random(5);
  EXPECT_EQ(random.interval(0), 0u);
  bool seen[4] = {};
  for (int i = 0; i < 200; ++i) seen[random.interval(3)] = true;
  EXPECT_TRUE(seen[0] && seen[1] && seen[2] && seen[3]);
  bool above_32_bits = false;
  for (int i = 0; i < 50; ++i) {
    const uint64_t value = random.interval(uint64_t{1} << 40);
    EXPECT_LE(value, uint64_t{1} << 40);
    above_32_bits |= value > 0xFFFFFFFFu;
  }
  EXPECT_TRUE(above_32_bits);
}

}  // namespace
}  // namespace viaduct
