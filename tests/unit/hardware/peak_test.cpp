#include "hardware/cpu/peak.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "hardware/cpu/amx_permission.h"
#include "hardware/cpu/peak_loops.h"
#include "hardware/cpu_features.h"
#include "ops/cpu/cpu_ops.h"

namespace viaduct {
namespace {

float small(size_t i) {
  return static_cast<float>((i * 2654435761u >> 8) % 1024) / 1024.0f - 0.5f;
}

// The loops do the multiply-adds that are counted: the same chains, computed element by element.
void expect_counted_fmas(const cpu::FmaLoop& loop) {
  const size_t lanes = static_cast<size_t>(loop.lanes),
               count = lanes * static_cast<size_t>(loop.accumulators);
  std::vector<float> x(4 * lanes), y(2 * lanes), v(count);
  for (size_t i = 0; i < x.size(); ++i) x[i] = small(i);
  for (size_t i = 0; i < y.size(); ++i) y[i] = small(i + 100);
  for (size_t i = 0; i < v.size(); ++i) v[i] = small(i + 200);
  auto expected = v;
  double fmas = 0;
  for (int n = 0; n < 7; ++n) {
    for (size_t j = 0; j < 4; ++j) {
      for (size_t i = 0; i < count; ++i, ++fmas) {
        expected[i] = std::fma(expected[i], x[j * lanes + i % lanes], y[j % 2 * lanes + i % lanes]);
      }
    }
  }
  loop.run(x.data(), y.data(), v.data(), 7);
  EXPECT_EQ(v, expected);
  EXPECT_EQ(loop.flops_per_iteration() * 7, 2 * fmas);
}

TEST(MatmulPeak, FmaLoopsDoWhatIsCounted) {
  expect_counted_fmas(cpu::fma_loop_portable());
  if (detect_cpu_features().avx2) expect_counted_fmas(cpu::fma_loop_avx2());
  if (detect_cpu_features().avx512) expect_counted_fmas(cpu::fma_loop_avx512());
}

TEST(MatmulPeak, DotLoopDoesWhatIsCounted) {
  if (!detect_cpu_features().avx512_bf16) GTEST_SKIP() << "no AVX512-BF16 here";
  const cpu::DotLoop loop = cpu::dot_loop_avx512_bf16();
  const size_t lanes = static_cast<size_t>(loop.lanes),
               accumulators = static_cast<size_t>(loop.accumulators);
  std::vector<bfloat16> x(4 * 2 * lanes), y(2 * 2 * lanes);
  for (size_t i = 0; i < x.size(); ++i) x[i] = bfloat16(small(i));
  for (size_t i = 0; i < y.size(); ++i) y[i] = bfloat16(small(i + 100));
  std::vector<float> v(lanes * accumulators);
  for (size_t i = 0; i < v.size(); ++i) v[i] = small(i + 200);
  auto expected = v;
  double products = 0;
  for (int n = 0; n < 7; ++n) {
    for (size_t j = 0; j < 4; ++j) {
      for (size_t i = 0; i < v.size(); ++i) {
        const size_t left = 2 * (j * lanes + i % lanes),
                     right = 2 * ((i / lanes + j) % 2 * lanes + i % lanes);
        for (const size_t element : {1, 0}) {  // the odd element first
          expected[i] +=
              static_cast<float>(x[left + element]) * static_cast<float>(y[right + element]);
          ++products;
        }
      }
    }
  }
  loop.run(reinterpret_cast<const uint16_t*>(x.data()), reinterpret_cast<const uint16_t*>(y.data()),
           v.data(), 7);
  for (size_t i = 0; i < v.size(); ++i) EXPECT_NEAR(v[i], expected[i], 1e-5) << i;
  EXPECT_EQ(loop.flops_per_iteration() * 7, 2 * products);
}

TEST(MatmulPeak, TileLoopDoesWhatIsCounted) {
  if (!detect_cpu_features().amx_bf16 || !cpu::request_amx_permission())
    GTEST_SKIP() << "no AMX here";
  constexpr size_t kTile = cpu::TileLoop::kTileElements;
  std::vector<uint16_t> a(2 * kTile), b(2 * kTile);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(small(i)) >> 16);
    b[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(small(i + 7)) >> 16);
  }
  const auto value = [](uint16_t bits) {
    return double{std::bit_cast<float>(uint32_t{bits} << 16)};
  };
  std::vector<float> c(4 * 256);
  cpu::tile_loop_amx().run(a.data(), b.data(), c.data(), 3);
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < 2; ++j) {
      for (size_t m = 0; m < 16; ++m) {
        for (size_t n = 0; n < 16; ++n) {
          double sum = 0;
          for (size_t k = 0; k < 32; ++k) {
            sum +=
                value(a[i * kTile + m * 32 + k]) * value(b[j * kTile + k / 2 * 32 + n * 2 + k % 2]);
          }
          EXPECT_NEAR(c[(i * 2 + j) * 256 + m * 16 + n], 3 * sum, 1e-4);
        }
      }
    }
  }
}

TEST(MatmulPeak, NamesWhatItMeasured) {
  ThreadPool pool(2);
  const MatmulPeak fp32 = measure_matmul_peak(pool, DType::f32, CpuIsa::portable);
  EXPECT_EQ(fp32.name, "FP32 FMA");
  EXPECT_EQ(fp32.threads, 2);
  EXPECT_TRUE(fp32.measured);
  EXPECT_GT(fp32.tflops, 1e-4);  // far below any machine, far above a broken unit
  EXPECT_LT(fp32.tflops, 100);
  const auto bf16_peak = [&](CpuIsa isa, const char* name) {
    if (!cpu_supports(isa)) return;
    EXPECT_EQ(measure_matmul_peak(pool, DType::bf16, isa).name, name);
  };
  bf16_peak(CpuIsa::avx2, "FP32 FMA AVX2");
  bf16_peak(CpuIsa::avx512, "FP32 FMA AVX-512");
  bf16_peak(CpuIsa::avx512_bf16, "BF16 AVX-512");
  bf16_peak(CpuIsa::amx, "BF16 AMX");
  EXPECT_THROW(measure_matmul_peak(pool, DType::f64, CpuIsa::portable), DeviceError);
  if (!cpu_supports(CpuIsa::amx)) {
    EXPECT_THROW(measure_matmul_peak(pool, DType::bf16, CpuIsa::amx), DeviceError);
  }
}

}  // namespace
}  // namespace viaduct
