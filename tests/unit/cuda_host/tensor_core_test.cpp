// Products of warps, loads of their operands and asynchronous copies on the emulator: correct
// kernels give the same result with every seed, and wrong ones are detected.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "ops/cuda/kernels/async_copy.cuh"
#include "ops/cuda/kernels/mma.cuh"

namespace viaduct::cuda {
namespace {

using cuda_host::emulator;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int kSeeds = 20;

/// The results of a kernel of one block for every seed: `kernel(out)` with out [size].
template <class Kernel>
std::set<std::vector<float>> results(unsigned threads, size_t size, const Kernel& kernel) {
  std::set<std::vector<float>> all;
  for (uint64_t seed = 0; seed <= kSeeds; ++seed) {
    std::vector<float> out(size, 0);
    emulator().set_seed(seed);
    emulator().launch(1, threads, 8192, [&] { kernel(out.data()); });
    for (float& value : out) value = value == value ? value : -12345.0f;  // NaN equals nothing
    all.insert(out);
  }
  return all;
}

template <class Kernel>
void expect_broken(unsigned threads, const char* what, const Kernel& kernel) {
  for (uint64_t seed = 0; seed <= kSeeds; ++seed) {
    emulator().set_seed(seed);
    EXPECT_THAT([&] { emulator().launch(1, threads, 8192, kernel); },
                ThrowsMessage<cuda_host::Error>(HasSubstr(what)))
        << "seed " << seed;
  }
}

/// Small whole numbers, whose products and sums are exact in every format.
float a_of(int row, int k) {
  return static_cast<float>((row * 5 + k * 3) % 7 - 3);
}
float b_of(int k, int column) {
  return static_cast<float>((k * 2 + column * 7) % 9 - 4);
}
std::vector<float> expected_product(float begin) {
  std::vector<float> d(16 * 8);
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      float sum = begin;
      for (int k = 0; k < 16; ++k) sum += a_of(row, k) * b_of(k, column);
      d[static_cast<size_t>(row * 8 + column)] = sum;
    }
  return d;
}

void write_product(const float (&d)[4], float* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  for (int i = 0; i < 4; ++i) out[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
}

template <class T>
class TensorCore : public testing::Test {};
using Formats = testing::Types<Bf16, F16>;
TYPED_TEST_SUITE(TensorCore, Formats);

TYPED_TEST(TensorCore, MultipliesRegistersAsPtxSays) {
  const auto all = results(32, 128, [](float* out) {
    const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
    uint32_t a[4], b[2];
    for (int i = 0; i < 4; ++i) {
      const int row = g + i % 2 * 8, k = 2 * t + i / 2 * 8;
      a[i] = narrowed_pair<TypeParam>(a_of(row, k), a_of(row, k + 1));
    }
    for (int i = 0; i < 2; ++i) {
      const int k = 2 * t + i * 8;
      b[i] = narrowed_pair<TypeParam>(b_of(k, g), b_of(k + 1, g));
    }
    float d[4] = {2, 2, 2, 2};
    mma_16x8x16<TypeParam>(d, a, b);
    write_product(d, out);
  });
  EXPECT_THAT(all, testing::ElementsAre(expected_product(2)));
}

/// a [16, 16] and b, stored as [k, column] or [column, k], in shared memory with rows of 24
/// elements.
template <class T>
struct Operands {
  T a[16][24], b[16][24], b_by_column[8][24];
  void fill() {
    for (int i = static_cast<int>(threadIdx.x); i < 256; i += 32) {
      a[i / 16][i % 16] = narrowed<T>(a_of(i / 16, i % 16));
      if (i % 16 >= 8) continue;
      b[i / 16][i % 16] = narrowed<T>(b_of(i / 16, i % 16));
      b_by_column[i % 16][i / 16] = narrowed<T>(b_of(i / 16, i % 16));
    }
    __syncthreads();
  }
};

/// The product of operands loaded by ldmatrix; kWrong: b is loaded as if it were stored in the
/// other order.
template <class T, bool kByColumn, bool kWrong>
void loaded_product(float* out) {
  auto& shared_memory = *dynamic_shared<Operands<T>>();
  shared_memory.fill();
  const int lane = static_cast<int>(threadIdx.x);
  uint32_t a[4], b[4];
  load_matrices<false>(a, &shared_memory.a[lane % 16][lane / 16 * 8]);
  if constexpr (kByColumn) {
    load_matrices<kWrong>(b, &shared_memory.b_by_column[lane % 8][lane / 8 % 2 * 8]);
  } else {
    load_matrices<!kWrong>(b, &shared_memory.b[lane % 16][0]);
  }
  float d[4] = {};
  mma_16x8x16<T>(d, a, {b[0], b[1]});
  write_product(d, out);
}

TYPED_TEST(TensorCore, LoadsOperandsOfEitherOrder) {
  const auto by_column = results(32, 128, loaded_product<TypeParam, true, false>);
  EXPECT_THAT(by_column, testing::ElementsAre(expected_product(0)));
  const auto by_row = results(32, 128, loaded_product<TypeParam, false, false>);
  EXPECT_THAT(by_row, testing::ElementsAre(expected_product(0)));
}

TYPED_TEST(TensorCore, TheWrongOrderShows) {
  EXPECT_NE(*results(32, 128, loaded_product<TypeParam, true, true>).begin(), expected_product(0));
  EXPECT_NE(*results(32, 128, loaded_product<TypeParam, false, true>).begin(), expected_product(0));
}

/// a · b = c of [16, 16]; its registers are an operand of the second product with b.
TYPED_TEST(TensorCore, ProductsAreOperandsOfTheNext) {
  const auto all = results(32, 128, [](float* out) {
    auto& memory = *dynamic_shared<Operands<TypeParam>>();
    memory.fill();
    const int lane = static_cast<int>(threadIdx.x);
    uint32_t a[4], b[4];
    load_matrices<false>(a, &memory.a[lane % 16][lane / 16 * 8]);
    load_matrices<true>(b, &memory.b[lane % 16][0]);
    float c[2][4] = {}, d[4] = {};
    for (auto& half : c) mma_16x8x16<TypeParam>(half, a, {b[0], b[1]});
    const uint32_t next[4] = {
        narrowed_pair<TypeParam>(c[0][0], c[0][1]), narrowed_pair<TypeParam>(c[0][2], c[0][3]),
        narrowed_pair<TypeParam>(c[1][0], c[1][1]), narrowed_pair<TypeParam>(c[1][2], c[1][3])};
    mma_16x8x16<TypeParam>(d, next, {b[0], b[1]});
    write_product(d, out);
  });
  const std::vector<float> c = expected_product(0);
  std::vector<float> expected(128);
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column)
      for (int k = 0; k < 16; ++k)
        expected[static_cast<size_t>(row * 8 + column)] +=
            c[static_cast<size_t>(row * 8 + k % 8)] * b_of(k, column);
  EXPECT_THAT(all, testing::ElementsAre(expected));
}

TEST(TensorCoreErrors, LanesInDifferentProducts) {
  expect_broken(32, "different collectives", [] {
    float d[4] = {};
    const uint32_t a[4] = {}, b[2] = {};
    if (threadIdx.x < 16) {
      mma_16x8x16<Bf16>(d, a, b);
    } else {
      mma_16x8x16<F16>(d, a, b);
    }
  });
  expect_broken(31, "left", [] {
    float d[4] = {};
    mma_16x8x16<Bf16>(d, {0, 0, 0, 0}, {0, 0});
  });
}

TEST(TensorCoreErrors, RowsOutsideOfSharedMemory) {
  static uint16_t global[64];
  expect_broken(32, "ldmatrix", [] {
    uint32_t to[4];
    load_matrices<false>(to, global);
  });
  expect_broken(32, "ldmatrix", [] {
    uint32_t to[4];
    load_matrices<false>(to, dynamic_shared<char>() + 8);
  });
}

// Asynchronous copies.

/// All threads copy two tiles, and each thread reads elements that others copied; parts of the
/// synchronization may be missing.
struct Missing {
  bool wait = false, barrier = false, barrier_before_reuse = false, last_group = false;
};
void copy_twice(const Missing& missing, float* out) {
  alignas(16) static float from[2][96 * 4];
  const int t = static_cast<int>(threadIdx.x);
  for (int tile = 0; tile < 2; ++tile)
    for (int i = 0; i < 4; ++i) from[tile][4 * t + i] = static_cast<float>(1000 * tile + 4 * t + i);
  __syncthreads();
  auto* tile = dynamic_shared<float>();
  for (int round = 0; round < 2; ++round) {
    begin_copy(tile + 4 * t, from[round] + 4 * t, t % 5 != 0);
    commit_copies();
    if (missing.last_group) {
      wait_for_copies<1>();
    } else if (!missing.wait) {
      wait_for_copies<0>();
    }
    if (!missing.barrier) __syncthreads();
    out[t] += tile[(4 * t + 160) % 384];
    if (!missing.barrier_before_reuse) __syncthreads();
  }
  wait_for_copies<0>();
}

TEST(Copies, LandBeforeTheWaitReturns) {
  const auto all = results(96, 96, [](float* out) { copy_twice({}, out); });
  ASSERT_EQ(all.size(), 1u);
  for (int t = 0; t < 96; ++t) {
    const int source = (t + 40) % 96;
    EXPECT_EQ((*all.begin())[static_cast<size_t>(t)],
              source % 5 == 0 ? 0.0f : static_cast<float>(1000 + 8 * source));
  }
}

TEST(Copies, WhatIsMissingShows) {
  const auto differs = [](const Missing& missing) {
    return results(96, 96, [&](float* out) { copy_twice(missing, out); }).size() > 1;
  };
  EXPECT_TRUE(differs({.wait = true}));
  EXPECT_TRUE(differs({.barrier = true}));
  EXPECT_TRUE(differs({.barrier_before_reuse = true}));
  EXPECT_TRUE(differs({.last_group = true}));
}

/// A thread that reads only what it copied needs no barrier; of two groups the older is complete
/// while the newer is not.
TEST(Copies, GroupsLandInTurn) {
  alignas(16) static const float from[3][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}};
  const auto read = [](bool newest) {
    return results(32, 32, [=](float* out) {
      auto* mine = dynamic_shared<float>() + threadIdx.x * 12;
      for (int i = 0; i < 3; ++i) {
        begin_copy(mine + 4 * i, from[i], true);
        commit_copies();
      }
      wait_for_copies<1>();
      out[threadIdx.x] = mine[1] * 100 + mine[newest ? 8 : 4];
      wait_for_copies<0>();
    });
  };
  EXPECT_THAT(read(false), testing::ElementsAre(std::vector<float>(32, 205)));
  EXPECT_GT(read(true).size(), 1u);
}

TEST(Copies, RulesThatAreBroken) {
  alignas(16) static float global[16];
  expect_broken(32, "without waiting", [] {
    begin_copy(dynamic_shared<float>() + threadIdx.x * 4, global, true);
    commit_copies();
  });
  expect_broken(32, "without waiting", [] {  // a group that was not committed is not waited for
    begin_copy(dynamic_shared<float>() + threadIdx.x * 4, global, true);
    wait_for_copies<0>();
  });
  expect_broken(1, "cp.async", [] { begin_copy(global, global, true); });
  expect_broken(1, "cp.async", [] { begin_copy(dynamic_shared<float>() + 1, global, true); });
  expect_broken(1, "source", [] { begin_copy(dynamic_shared<float>(), global + 1, true); });
}

}  // namespace
}  // namespace viaduct::cuda
