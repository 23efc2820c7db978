// Placement: allocations that live at the same time never overlap, and the arena is close to the
// lower bound.

#include "timeline/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace viaduct {
namespace {

constexpr int64_t kAlignment = 64;

/// Bytes of the arena over the lower bound, after checking that the placement is valid.
double ratio(const std::vector<Lifetime>& lifetimes) {
  const Placement placement = place(lifetimes, kAlignment);
  EXPECT_EQ(placement.offsets.size(), lifetimes.size());
  int64_t end = 0;
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    const Lifetime& a = lifetimes[i];
    EXPECT_EQ(placement.offsets[i] % kAlignment, 0);
    EXPECT_GE(placement.offsets[i], 0);
    end = std::max(end, placement.offsets[i] + a.bytes);
    for (size_t j = 0; j < i; ++j) {
      const Lifetime& b = lifetimes[j];
      if (a.end <= b.begin || b.end <= a.begin) continue;
      EXPECT_TRUE(placement.offsets[i] + a.bytes <= placement.offsets[j] ||
                  placement.offsets[j] + b.bytes <= placement.offsets[i])
          << i << " and " << j << " overlap";
    }
  }
  EXPECT_GE(placement.bytes, end);
  EXPECT_LT(placement.bytes, end + kAlignment) << "nothing lies at the end of the arena";
  EXPECT_GE(placement.bytes, placement.lower_bound);
  return static_cast<double>(placement.bytes) / static_cast<double>(placement.lower_bound);
}

TEST(Placement, OfNothing) {
  const Placement placement = place({}, kAlignment);
  EXPECT_EQ(placement.bytes, 0);
  EXPECT_EQ(placement.lower_bound, 0);
}

TEST(Placement, OneAfterTheOtherShareAPlace) {
  const Placement placement = place({{100, 0, 2}, {90, 2, 4}, {128, 4, 5}}, kAlignment);
  EXPECT_EQ(placement.offsets, (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(placement.bytes, 128);
  EXPECT_EQ(placement.lower_bound, 128);
}

// The sum of held bytes counts rounded sizes: 3 × 64 here, although only 3 bytes are requested.
TEST(Placement, TheLowerBoundIsTheMostHeldAtOnce) {
  EXPECT_EQ(place({{1, 0, 5}, {1, 1, 6}, {1, 2, 3}, {1, 3, 9}}, kAlignment).lower_bound, 192);
}

// A forward that keeps and a backward that frees: a stack with scratch memory on top.
TEST(Placement, AStackIsPackedWithoutGaps) {
  std::vector<Lifetime> lifetimes;
  constexpr int64_t kLayers = 12;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const int64_t forward = 10 * layer, backward = 10 * (2 * kLayers - layer);
    lifetimes.push_back({4096 + 64 * (layer % 3), forward, backward});  // kept
    lifetimes.push_back({9000, forward + 1, forward + 4});              // scratch
    lifetimes.push_back({2000, forward + 3, forward + 8});              // its output
    lifetimes.push_back({12000, backward - 9, backward - 2});
  }
  EXPECT_LT(ratio(lifetimes), 1.03);
}

TEST(Placement, RandomSequences) {
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    std::vector<Lifetime> lifetimes;
    const int count = 1 + static_cast<int>(random() % 300);
    for (int i = 0; i < count; ++i) {
      const auto begin = static_cast<int64_t>(random() % 1000);
      const auto length = static_cast<int64_t>(1 + random() % (i % 7 == 0 ? 900 : 60));
      const auto bytes = static_cast<int64_t>(1 + random() % (1u << (random() % 16)));
      lifetimes.push_back({bytes, begin, begin + length});
    }
    EXPECT_LT(ratio(lifetimes), 1.06) << "round " << round;
  }
}

/// The same choice among all placed allocations: the tightest gap between those alive, else the
/// end.
std::vector<int64_t> oldest_first(const std::vector<Lifetime>& lifetimes) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].begin < lifetimes[b].begin; });
  std::vector<int64_t> offsets(lifetimes.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const Lifetime& l = lifetimes[order[i]];
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (size_t j = 0; j < i; ++j) {
      const Lifetime& other = lifetimes[order[j]];
      if (other.begin < l.end && l.begin < other.end)
        taken.emplace_back(offsets[order[j]], offsets[order[j]] + other.bytes);
    }
    std::sort(taken.begin(), taken.end());
    int64_t end = 0, best = -1, tightest = 0;
    for (const auto& [from, to] : taken) {
      if (from - end >= l.bytes && (best < 0 || from - end < tightest))
        best = end, tightest = from - end;
      end = std::max(end, to);
    }
    offsets[order[i]] = best < 0 ? end : best;
  }
  return offsets;
}

// Lists of every length, with allocations that live long and short: however the placed ones are
// looked up, the tightest gap is the same.
TEST(Placement, GapsAreThoseAmongAllPlacedAllocations) {
  std::mt19937 random(11);
  for (const int count : {1, 30, 300, 3000, 9000}) {
    std::vector<Lifetime> lifetimes;
    for (int i = 0; i < count; ++i) {
      const auto begin = static_cast<int64_t>(random() % static_cast<unsigned>(2 * count));
      const auto length = static_cast<int64_t>(1 + random() % (i % 50 == 0 ? 2 * count : 40));
      const auto bytes = static_cast<int64_t>(kAlignment * (1 + random() % 50));
      lifetimes.push_back({bytes, begin, begin + length});
    }
    EXPECT_EQ(place_oldest_first(lifetimes, kAlignment).offsets, oldest_first(lifetimes)) << count;
  }
}

}  // namespace
}  // namespace viaduct
