// Products of warpgroups on the emulator: operands as descriptors say, the same result with every
// seed; what is missing shows.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "ops/cuda/kernels/float8.cuh"
#include "ops/cuda/kernels/swizzled_tile.cuh"

namespace viaduct::cuda {
namespace {

using cuda_host::emulator;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int kSeeds = 20, kThreads = 256;

/// Small whole numbers, whose products and sums are exact in every format.
float a_of(int row, int k) {
  return static_cast<float>((row * 5 + k * 3) % 7 - 3);
}
float b_of(int k, int column) {
  return static_cast<float>((k * 2 + column * 7) % 9 - 4);
}

template <class T>
T element_of(float value) {
  if constexpr (sizeof(T) == 2) {
    return narrowed<T>(value);
  } else {
    return {encode_float8(value, std::is_same_v<T, E5m2>)};
  }
}

/// Parts of the synchronization that may be missing.
struct Missing {
  bool publish = false, barrier = false, begin = false, finish = false, finish_before_reuse = false;
};

/// Two warpgroups multiply the same operands twice: out [2, 64, columns] = 1 + 2 · a · bᵀ.
template <class A, class B, bool kLastA, bool kLastB>
struct Product {
  static constexpr int kColumns = sizeof(A) == 2 ? 256 : 128, kSums = kColumns / 2;
  struct Tiles {
    SwizzledTile<A, kLastA, 64> a;
    SwizzledTile<B, kLastB, kColumns> b;
  };
  static constexpr int kDepth = SwizzledTile<A, kLastA, 64>::kDepth, kEach = kDepth / 4;

  Product() {
    for (int k = 0; k < kDepth; ++k) {
      for (int row = 0; row < 64; ++row) at(a, kLastA, row, k, 64) = element_of<A>(a_of(row, k));
      for (int column = 0; column < kColumns; ++column)
        at(b, kLastB, column, k, kColumns) = element_of<B>(b_of(k, column));
    }
  }
  template <class T>
  static T& at(std::vector<T>& of, bool last, int kept, int k, int most) {
    return of[static_cast<size_t>(last ? kept * kDepth + k : k * most + kept)];
  }

  void kernel(const Missing& missing, float* out) const {
    auto& tiles = *dynamic_shared<Tiles>();
    float sums[kSums];
    for (float& sum : sums) sum = 1;
    for (int round = 0; round < 2; ++round) {
      copy_tile<kThreads>(tiles.a, a.data(), kLastA ? kDepth : 64, 0, 64, 0, kDepth);
      copy_tile<kThreads>(tiles.b, b.data(), kLastB ? kDepth : kColumns, 0, kColumns, 0, kDepth);
      commit_copies();
      wait_for_copies<0>();
      if (!missing.publish) publish_writes();
      if (!missing.barrier) __syncthreads();
      if (!missing.begin) begin_products();
      for (int depth = 0; depth < kDepth; depth += kEach)
        multiply(sums, tiles.a.operand(0, depth), tiles.b.operand(0, depth), true);
      commit_products();
      if (!missing.finish && !(missing.finish_before_reuse && round == 0)) finish_products(sums);
      __syncthreads();
    }
    const int group = static_cast<int>(threadIdx.x) / kWarpgroupThreads;
    for_pairs<kSums>([&](int row, int column, int i) {
      for (int e = 0; e < 2; ++e) out[(group * 64 + row) * kColumns + column + e] = sums[i + e];
    });
    finish_products(sums);
  }

  /// The results of all seeds; an error is an empty one.
  std::set<std::vector<float>> results(const Missing& missing = {}) const {
    std::set<std::vector<float>> all;
    for (uint64_t seed = 0; seed <= kSeeds; ++seed) {
      std::vector<float> out(size_t{2} * 64 * kColumns);
      emulator().set_seed(seed);
      try {
        emulator().launch(1, kThreads, sizeof(Tiles), [&] { kernel(missing, out.data()); });
      } catch (const cuda_host::Error&) {
        out.clear();
      }
      for (float& value : out) value = value == value ? value : -12345.0f;  // NaN equals nothing
      all.insert(out);
    }
    return all;
  }
  std::vector<float> expected() const {
    std::vector<float> out;
    for (int row = 0; row < 128; ++row)
      for (int column = 0; column < kColumns; ++column) {
        float sum = 0;
        for (int k = 0; k < kDepth; ++k) sum += a_of(row % 64, k) * b_of(k, column);
        out.push_back(1 + 2 * sum);
      }
    return out;
  }

  std::vector<A> a = std::vector<A>(size_t{64} * kDepth);
  std::vector<B> b = std::vector<B>(size_t{kColumns} * kDepth);
};

template <class T>
class Warpgroups : public testing::Test {};
using Products = testing::Types<Product<Bf16, Bf16, true, true>, Product<Bf16, Bf16, true, false>,
                                Product<F16, F16, false, false>, Product<F16, F16, false, true>,
                                Product<E4m3, E4m3, true, true>, Product<E5m2, E4m3, true, true>>;
TYPED_TEST_SUITE(Warpgroups, Products);

TYPED_TEST(Warpgroups, MultiplyOperandsOfAnyOrderAndFormat) {
  const TypeParam product;
  EXPECT_THAT(product.results(), testing::ElementsAre(product.expected()));
}

TYPED_TEST(Warpgroups, WhatIsMissingShows) {
  const TypeParam product;
  const auto shows = [&](const Missing& missing) {
    return product.results(missing) != std::set<std::vector<float>>{product.expected()};
  };
  EXPECT_TRUE(shows({.publish = true}));
  EXPECT_TRUE(shows({.barrier = true}));
  EXPECT_TRUE(shows({.begin = true}));
  EXPECT_TRUE(shows({.finish = true}));
  EXPECT_TRUE(shows({.finish_before_reuse = true}));
}

using Small = Product<Bf16, Bf16, true, true>;

/// A kernel of one warpgroup on uninitialised operands breaks a rule.
template <class Kernel>
void expect_broken(unsigned threads, const char* what, const Kernel& kernel) {
  for (uint64_t seed = 0; seed <= kSeeds; ++seed) {
    emulator().set_seed(seed);
    EXPECT_THAT(
        [&] {
          emulator().launch(1, threads, sizeof(Small::Tiles), [&] {
            auto& tiles = *dynamic_shared<Small::Tiles>();
            float sums[Small::kSums] = {};
            kernel(tiles, sums);
          });
        },
        ThrowsMessage<cuda_host::Error>(HasSubstr(what)))
        << "seed " << seed;
  }
}

TEST(WarpgroupErrors, RulesThatAreBroken) {
  const auto start = [](auto& tiles, auto& sums, int depth = 0) {
    multiply(sums, tiles.a.operand(0, depth), tiles.b.operand(0, 0), true);
  };
  expect_broken(128, "no wgmma.fence", [&](auto& tiles, auto& sums) { start(tiles, sums); });
  expect_broken(128, "without waiting for its products", [&](auto& tiles, auto& sums) {
    begin_products();
    start(tiles, sums);
    commit_products();
    wait_for_products<1>();
  });
  expect_broken(128, "different products", [&](auto& tiles, auto& sums) {
    begin_products();
    start(tiles, sums, threadIdx.x < 32 ? 16 : 0);
    commit_products();
    finish_products(sums);
  });
  expect_broken(128, "were written", [&](auto& tiles, auto& sums) {
    begin_products();
    start(tiles, sums);
    commit_products();
    sums[5] = 0;
    finish_products(sums);
  });
  expect_broken(96, "has not 128 threads", [&](auto& tiles, auto& sums) {
    begin_products();
    start(tiles, sums);
  });
  expect_broken(128, "fence.proxy.async", [&](auto& tiles, auto& sums) {
    store_operand(tiles.a.bytes + 16 * threadIdx.x, uint32_t{0});
    __syncthreads();
    begin_products();
    start(tiles, sums);
    commit_products();
    finish_products(sums);
  });
}

/// The product of the first operand with a descriptor that was changed.
void multiply_with(Small::Tiles& tiles, float (&sums)[Small::kSums], uint64_t change) {
  auto a = tiles.a.operand(0, 0);
  a.descriptor ^= change;
  begin_products();
  multiply(sums, a, tiles.b.operand(0, 0), true);
  commit_products();
  finish_products(sums);
}

TEST(WarpgroupErrors, DescriptorsThatAreWrong) {
  const auto changed = [](uint64_t change) {
    return [change](auto& tiles, auto& sums) { multiply_with(tiles, sums, change); };
  };
  expect_broken(128, "128-byte swizzle", changed(uint64_t{3} << 62));  // 32 bytes
  expect_broken(128, "128-byte swizzle", changed(uint64_t{1} << 49));  // a base that is not aligned
  expect_broken(128, "not in shared memory", changed(uint64_t{1} << 44));  // rows far apart
}

}  // namespace
}  // namespace viaduct::cuda
