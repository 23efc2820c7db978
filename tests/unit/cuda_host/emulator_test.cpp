// The emulator itself: it runs correct kernels the same way with every seed, and detects wrong
// ones.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "cuda_host/device.h"

namespace cuda_host {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int kSeeds = 20;

/// The results of a kernel for every seed: `kernel(out)` with out [size], launched as given.
template <class Kernel>
std::set<std::vector<int>> results(Extent grid, Extent block, size_t size, const Kernel& kernel,
                                   size_t dynamic_bytes = 0) {
  std::set<std::vector<int>> all;
  for (uint64_t seed = 0; seed <= kSeeds; ++seed) {
    std::vector<int> out(size, 0);
    emulator().set_seed(seed);
    emulator().launch(grid, block, dynamic_bytes, [&] { kernel(out.data()); });
    all.insert(out);
  }
  return all;
}

TEST(Emulator, EveryThreadRunsOnceWithItsIndices) {
  const Extent grid(3, 2, 2), block(5, 4, 3);
  const auto all =
      results(grid, block, static_cast<size_t>(grid.count() * block.count()), [](int* out) {
        const unsigned b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        const unsigned t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
        out[b * 60 + t] += static_cast<int>(b * 1000 + t + 1);
      });
  ASSERT_EQ(all.size(), 1u);
  for (int i = 0; i < 12 * 60; ++i)
    ASSERT_EQ((*all.begin())[static_cast<size_t>(i)], i / 60 * 1000 + i % 60 + 1);
}

/// Neighbours exchange values through shared memory, twice; a barrier may be missing.
void exchange(int* out, bool after_writes, bool before_reuse) {
  static const char kKey = 0;
  auto* values = static_cast<int*>(emulator().shared(&kKey, 96 * sizeof(int)));
  const auto t = static_cast<int>(threadIdx.x);
  for (int round = 0; round < 2; ++round) {
    values[t] = 100 * round + t;
    if (after_writes) __syncthreads();
    out[t] += values[(t + 40) % 96];
    if (before_reuse) __syncthreads();
  }
}

TEST(Emulator, BarriersMakeAllSeedsAgree) {
  const auto all = results(2, 96, 96, [](int* out) { exchange(out, true, true); });
  ASSERT_EQ(all.size(), 1u);
  for (int t = 0; t < 96; ++t)
    EXPECT_EQ((*all.begin())[static_cast<size_t>(t)], 2 * (100 + 2 * ((t + 40) % 96)));
}

TEST(Emulator, AMissingBarrierShows) {
  EXPECT_GT(results(1, 96, 96, [](int* out) { exchange(out, false, true); }).size(), 1u);
  EXPECT_GT(results(1, 96, 96, [](int* out) { exchange(out, true, false); }).size(), 1u);
}

TEST(Emulator, BlocksRunInTurnOrOneAfterTheOther) {
  // Each block notes how far the other is: not begun, done, or, if they run together, on its way.
  std::set<int> seen;
  const auto all = results(2, 40, 4, [](int* out) {
    int* const progress = out + 2;
    if (threadIdx.x == 0) progress[blockIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = progress[1 - blockIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) progress[blockIdx.x] = 2;
  });
  for (const std::vector<int>& out : all) seen.insert(out.begin(), out.begin() + 2);
  EXPECT_EQ(seen, (std::set<int>{0, 1, 2}));
}

TEST(Emulator, BlocksThatRunInTurnHaveMemoryOfTheirOwn) {
  const auto all = results(
      5, 96, 96,
      [](int* out) {
        static const char kKey = 0;
        auto* const values = static_cast<int*>(emulator().shared(&kKey, 96 * sizeof(int)));
        auto* const more = static_cast<int*>(emulator().dynamic_shared());
        const auto t = static_cast<int>(threadIdx.x), b = static_cast<int>(blockIdx.x);
        values[t] = 1000 * b + t, more[t] = b;
        __syncthreads();
        const int other = __shfl_xor_sync(~0u, values[(t + 1) % 96] - 1000 * more[(t + 2) % 96], 1);
        if (other != ((t ^ 1) + 1) % 96) out[t] = -1;
      },
      96 * sizeof(int));
  EXPECT_EQ(all, (std::set<std::vector<int>>{std::vector<int>(96, 0)}));
}

TEST(Emulator, ASeedIsOneOrder) {
  const auto order = [](uint64_t seed) {
    std::vector<unsigned> seen;
    emulator().set_seed(seed);
    emulator().launch(3, 40, 0, [&] { seen.push_back(blockIdx.x * 40 + threadIdx.x); });
    return seen;
  };
  EXPECT_EQ(order(7), order(7));
  EXPECT_NE(order(7), order(8));
  const auto plain = order(0);
  EXPECT_TRUE(std::is_sorted(plain.begin(), plain.end()));
}

TEST(Emulator, SharedMemoryIsPoisonedInEveryBlock) {
  const auto all = results(
      3, 1, 6,
      [](int* out) {
        static const char kKey = 0;
        auto* fixed = static_cast<int*>(emulator().shared(&kKey, sizeof(int)));
        auto* dynamic = static_cast<int*>(emulator().dynamic_shared());
        out[blockIdx.x * 2] = *fixed, out[blockIdx.x * 2 + 1] = dynamic[3];
        *fixed = dynamic[3] = 5;
      },
      16);
  EXPECT_THAT(all, testing::ElementsAre(std::vector<int>(6, -1)));
}

TEST(Emulator, ShufflesMoveValuesBetweenLanes) {
  const auto all = results(1, 64, 64 * 4, [](int* out) {
    const auto t = static_cast<int>(threadIdx.x);
    out[t * 4] = __shfl_xor_sync(~0u, t, 5);
    out[t * 4 + 1] = __shfl_down_sync(~0u, t, 3, 8);
    out[t * 4 + 2] = __shfl_up_sync(~0u, t, 30);
    out[t * 4 + 3] = __shfl_sync(~0u, t, 9, 16);
  });
  ASSERT_EQ(all.size(), 1u);
  for (int t = 0; t < 64; ++t) {
    const int* out = all.begin()->data() + t * 4;
    EXPECT_EQ(out[0], t ^ 5);
    EXPECT_EQ(out[1], t % 8 + 3 < 8 ? t + 3 : t);
    EXPECT_EQ(out[2], t % 32 >= 30 ? t - 30 : t);
    EXPECT_EQ(out[3], t / 16 * 16 + 9);
  }
}

TEST(Emulator, CollectivesOfSomeLanes) {
  const auto all = results(1, 32, 64, [](int* out) {
    const auto t = static_cast<int>(threadIdx.x);
    if (t % 2 != 0) return;  // the others have returned
    out[t] = static_cast<int>(__ballot_sync(0x55555555u, t >= 16));
    out[32 + t] = __shfl_sync(0x55555555u, t, 3);  // of a lane that is not in the mask
  });
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ((*all.begin())[4], 0x55550000);
  EXPECT_EQ((*all.begin())[32 + 4], -1);
}

TEST(Emulator, BarriersCarryAValue) {
  const auto all = results(2, 70, 70 * 2, [](int* out) {
    const auto t = threadIdx.x;
    out[t * 2] = __syncthreads_or(t == 69 ? 1 : 0);
    out[t * 2 + 1] = __syncthreads_or(0);
  });
  ASSERT_EQ(all.size(), 1u);
  for (size_t i = 0; i < 140; ++i) EXPECT_EQ((*all.begin())[i], i % 2 == 0 ? 1 : 0);
}

TEST(Emulator, AtomicsOnIntegersHaveNoOrder) {
  const auto all = results(4, 96, 2, [](int* out) {
    atomicAdd(out, 3);
    atomicMax(out + 1, static_cast<int>(threadIdx.x));
  });
  EXPECT_THAT(all, testing::ElementsAre(std::vector<int>{4 * 96 * 3, 95}));
}

template <class Kernel>
void expect_broken(int threads, const char* what, const Kernel& kernel) {
  for (uint64_t seed = 0; seed <= kSeeds; ++seed) {
    emulator().set_seed(seed);
    EXPECT_THAT([&] { emulator().launch(1, static_cast<unsigned>(threads), 0, kernel); },
                ThrowsMessage<Error>(HasSubstr(what)))
        << "seed " << seed;
  }
}

TEST(Emulator, UndefinedCollectivesAreErrors) {
  expect_broken(32, "different collectives", [] {
    if (threadIdx.x < 16) {
      __shfl_xor_sync(~0u, 1, 1);
    } else {
      __shfl_xor_sync(~0u, 1, 1);  // another line
    }
  });
  expect_broken(32, "left", [] {
    if (threadIdx.x == 31) return;
    __shfl_xor_sync(~0u, 1, 1);
  });
  expect_broken(20, "left", [] { __syncwarp(); });  // a warp of 20 threads
  expect_broken(32, "leaves it out", [] { __syncwarp(0xff); });
}

TEST(Emulator, BarriersThatSomeThreadsMissAreErrors) {
  expect_broken(64, "", [] {
    if (threadIdx.x < 32) __syncthreads();
  });
  expect_broken(64, "wait for each other", [] {
    if (threadIdx.x == 3) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  });
}

TEST(Emulator, LaunchesBeyondADevicesLimitsAreErrors) {
  EXPECT_THROW(emulator().launch(1, 1025, 0, [] {}), Error);
  EXPECT_THROW(emulator().launch(0, 32, 0, [] {}), Error);
  EXPECT_THROW(emulator().launch(1, 32, kMostSharedBytes + 1, [] {}), Error);
}

TEST(Emulator, RunsAgainAfterAnError) {
  emulator().set_seed(3);
  EXPECT_THROW(emulator().launch(2, 64, 0, [] { throw std::runtime_error("in a thread"); }), Error);
  int count = 0;
  emulator().launch(2, 64, 0, [&] { ++count; });
  EXPECT_EQ(count, 128);
}

}  // namespace
}  // namespace cuda_host
