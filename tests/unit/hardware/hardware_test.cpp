#include <gtest/gtest.h>

#include "hardware/cpu_features.h"
#include "hardware/matmul_peak.h"

namespace viaduct {
namespace {

TEST(CpuFeatures, EachImpliesTheSmallerOnes) {
  const CpuFeatures features = detect_cpu_features();
  // The test itself is compiled for this instruction set.
#if defined(__x86_64__)
  EXPECT_TRUE(features.avx2);
#elif defined(__aarch64__)
  EXPECT_TRUE(features.neon);
#endif
  EXPECT_FALSE(features.model_name.empty());
  EXPECT_LE(features.amx_bf16, features.avx512_bf16);
  EXPECT_LE(features.avx512_bf16, features.avx512);
  EXPECT_LE(features.avx512, features.avx2);
  EXPECT_LE(features.slow_bf16_vectors, features.avx512_bf16);
}

TEST(CpuFeatures, Describe) {
  EXPECT_EQ(describe({.model_name = "X"}), "X");
  EXPECT_EQ(
      describe(
          {.model_name = "X", .avx2 = true, .avx512 = true, .avx512_bf16 = true, .amx_bf16 = true}),
      "X: AVX2, AVX-512, AVX512-BF16, AMX BF16");
  EXPECT_EQ(describe({.model_name = "X", .neon = true, .sve = true, .arm_bf16 = true}),
            "X: NEON, SVE, BF16");
}

TEST(MatmulPeak, OnlyRises) {
  MatmulPeak peak{.tflops = 0.5, .name = "FP32 FMA AVX2", .measured = true, .threads = 2};
  peak.keep_best({.tflops = 0.4});
  EXPECT_EQ(peak.tflops, 0.5);
  peak.keep_best({.tflops = 0.7});
  EXPECT_EQ(peak.tflops, 0.7);
  EXPECT_EQ(peak.name, "FP32 FMA AVX2");
}

TEST(MatmulPeak, NamesItself) {
  const MatmulPeak peak{.tflops = 0.5, .name = "FP32 FMA AVX2", .measured = true, .threads = 2};
  EXPECT_EQ(peak.describe(), "FP32 FMA AVX2, 0.5 TFLOP/s measured on 2 threads");
  EXPECT_DOUBLE_EQ(model_flops_utilization(0.125, peak), 0.25);
  EXPECT_EQ(model_flops_utilization(0.6, peak), 1) << "the clock has risen since the measurement";
  EXPECT_EQ(MatmulPeak{}.describe(), "peak unknown");
  EXPECT_EQ(model_flops_utilization(0.125, {}), -1);
}

}  // namespace
}  // namespace viaduct
