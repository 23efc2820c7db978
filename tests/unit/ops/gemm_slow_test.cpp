// 10^5 small products from several pools at once: the library below must not mix up concurrent
// calls (Debian's serial OpenBLAS does), so every result has the bits of the first.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "ops/cpu/openblas.h"
#include "ops/gemm.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

constexpr int kPools = 4, kCallsOfAPool = 25000;

TEST(ConcurrentGemm, KeepsEveryBit) {
  const Tensor a = test::random_tensor(DType::f32, {70, 24}, 1);
  const Tensor b = test::random_tensor(DType::f32, {20, 24}, 2);
  const Tensor expected = host_tensor(DType::f32, {70, 20});
  test::OpMachine alone(CpuIsa::avx2, 1, {cpu::add_gemm});
  OpContext context = alone.context();
  gemm(context, {GemmForm::forward, a, b, expected});
  std::atomic<int> different{0};
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kPools; ++rank) {
    ranks.emplace_back([&] {
      test::OpMachine machine(CpuIsa::avx2, 2, {cpu::add_gemm});
      OpContext mine = machine.context();
      const Tensor c = host_tensor(DType::f32, {70, 20});
      for (int call = 0; call < kCallsOfAPool; ++call) {
        gemm(mine, {GemmForm::forward, a, b, c});
        if (std::memcmp(c.raw(), expected.raw(), static_cast<size_t>(c.bytes())) != 0) ++different;
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(different, 0);
}

TEST(ConcurrentGemm, RefusesASerialBuild) {
  EXPECT_TRUE(cpu::openblas_allows_concurrency("OpenBLAS 0.3.21 NO_AFFINITY Zen MAX_THREADS=64"));
  EXPECT_FALSE(cpu::openblas_allows_concurrency("OpenBLAS 0.3.21 Haswell SINGLE_THREADED"));
}

}  // namespace
}  // namespace viaduct
