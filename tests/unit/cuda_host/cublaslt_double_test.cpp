// The double of cuBLASLt: what it computes from descriptors, and that it refuses the same calls as
// the library.

#include <cublasLt.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "cublaslt_double.h"

namespace {

using cublaslt_double::latest_refusal;

/// d [m, n] = op(a) · op(b), column-major, with every setting that a caller may get wrong.
struct Call {
  cudaDataType_t type = CUDA_R_32F, d_type = CUDA_R_32F;
  int64_t m = 16, n = 16, k = 32;
  int64_t lda = 32, ldb = 32, ldd = 16;
  int32_t transa = CUBLAS_OP_T, transb = CUBLAS_OP_N;
  int32_t scale_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  bool scaled = false;
  size_t workspace_offset = 0, workspace_bytes = 1 << 20;
  size_t a_offset = 0;
  bool other_problem = false;  // uses the algorithm of another leading dimension

  std::vector<float> d;
  std::string refusal;

  cublasStatus_t run() {
    alignas(256) static char memory[5 << 20];
    std::fill(std::begin(memory), std::end(memory), 0);
    char *a = memory + a_offset, *b = memory + (1 << 16), *to = memory + (2 << 16);
    char *scales = memory + (3 << 16), *workspace = memory + (1 << 20) + workspace_offset;
    for (int64_t i = 0; i < lda * 64 && type == CUDA_R_32F; ++i) {
      reinterpret_cast<float*>(a)[i] = static_cast<float>(i % 7);
      reinterpret_cast<float*>(b)[i] = static_cast<float>(i % 5);
    }
    for (int i = 0; i < 64; ++i) reinterpret_cast<float*>(scales)[i] = 1;
    cublasLtHandle_t handle;
    cublasLtCreate(&handle);
    cublasLtMatmulDesc_t desc;
    cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, transa), set(CUBLASLT_MATMUL_DESC_TRANSB, transb);
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, scale_mode);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, scale_mode);
    if (scaled) {
      const void* at = scales;
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, at), set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, at);
    }
    const auto layout = [](cudaDataType_t of, int64_t rows, int64_t columns, int64_t ld) {
      cublasLtMatrixLayout_t made;
      cublasLtMatrixLayoutCreate(&made, of, static_cast<uint64_t>(rows),
                                 static_cast<uint64_t>(columns), ld);
      return made;
    };
    const bool turned = transa == CUBLAS_OP_T;
    const auto la = layout(type, turned ? k : m, turned ? m : k, lda);
    const auto lb = layout(type, k, n, ldb);
    const auto ld = layout(d_type, m, n, ldd);
    const auto asked = layout(d_type, m, n, other_problem ? ldd + 8 : ldd);
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulPreferenceCreate(&preference);
    const uint64_t most = 1 << 20;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &most, sizeof most);
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, desc, la, lb, asked, asked,
                                                           preference, 1, &result, &found);
    const float one = 1, zero = 0;
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLtMatmul(handle, desc, &one, a, la, b, lb, &zero, to, ld, to, ld, &result.algo,
                              workspace, workspace_bytes, nullptr);
    if (d_type == CUDA_R_32F)
      d.assign(reinterpret_cast<float*>(to), reinterpret_cast<float*>(to) + ldd * n);
    refusal = latest_refusal();
    for (auto* of : {la, lb, ld, asked}) cublasLtMatrixLayoutDestroy(of);
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatmulDescDestroy(desc);
    cublasLtDestroy(handle);
    return status;
  }
};

class CublasLtDouble : public testing::Test {
 protected:
  CublasLtDouble() { cublaslt_double::set_capability(90); }
  /// `reason`: part of the double's message.
  static void expect_refused(Call call, const std::string& reason,
                             cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED) {
    EXPECT_EQ(call.run(), status) << reason;
    EXPECT_NE(call.refusal.find(reason), std::string::npos) << call.refusal;
  }
};

TEST_F(CublasLtDouble, ComputesByLeadingDimensions) {
  Call call;
  call.lda = 40, call.ldd = 24;
  ASSERT_EQ(call.run(), CUBLAS_STATUS_SUCCESS);
  for (int64_t j = 0; j < 16; ++j) {
    for (int64_t i = 0; i < 16; ++i) {
      double sum = 0;
      for (int64_t l = 0; l < 32; ++l)
        sum += static_cast<double>((i * 40 + l) % 7) * static_cast<double>((j * 32 + l) % 5);
      EXPECT_EQ(call.d[static_cast<size_t>(j * 24 + i)], sum);
    }
  }
}

TEST_F(CublasLtDouble, RefusesWhatDoesNotFitTogether) {
  Call call;
  call.lda = 31;
  expect_refused(call, "a leading dimension below the rows");
  call = {};
  call.other_problem = true;
  expect_refused(call, "another problem", CUBLAS_STATUS_INVALID_VALUE);
  call = {};
  call.workspace_bytes = (1 << 20) - 1;
  expect_refused(call, "less workspace", CUBLAS_STATUS_INVALID_VALUE);
  call = {};
  call.workspace_offset = 128;
  expect_refused(call, "the workspace is not aligned", CUBLAS_STATUS_INVALID_VALUE);
  call = {};
  call.a_offset = 16;  // 256-byte alignment is assumed unless a preference says less
  expect_refused(call, "not aligned as promised", CUBLAS_STATUS_INVALID_VALUE);
  call = {};
  call.d_type = CUDA_R_16BF;
  EXPECT_EQ(call.run(), CUBLAS_STATUS_NOT_SUPPORTED) << "a 16-bit result of FP32 operands";
}

TEST_F(CublasLtDouble, HasNarrowOperandsOfItsGeneration) {
  Call fp8;
  fp8.type = CUDA_R_8F_E4M3, fp8.scaled = true;
  EXPECT_EQ(fp8.run(), CUBLAS_STATUS_SUCCESS) << latest_refusal();
  Call plain = fp8;
  plain.transa = CUBLAS_OP_N, plain.lda = 16;
  expect_refused(plain, "only a transposed");
  Call odd = fp8;
  odd.lda = odd.ldb = 40;
  expect_refused(odd, "multiples of 16 bytes");
  Call unscaled = fp8;
  unscaled.scaled = false;
  expect_refused(unscaled, "scales are not there");
  Call mx = fp8;
  mx.scale_mode = CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
  expect_refused(mx, "need 10.0");
  Call squares = fp8;
  squares.scale_mode = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  expect_refused(squares, "not both operands in squares");
  Call lines = fp8;
  lines.scale_mode = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
  EXPECT_EQ(lines.run(), CUBLAS_STATUS_SUCCESS) << latest_refusal();
  lines.n = 15;
  expect_refused(lines, "multiples of 4");

  cublaslt_double::set_capability(100);
  EXPECT_EQ(plain.run(), CUBLAS_STATUS_SUCCESS) << latest_refusal();
  EXPECT_EQ(mx.run(), CUBLAS_STATUS_SUCCESS) << latest_refusal();
  lines.n = 16;
  expect_refused(lines, "those of 9.0");
  cublaslt_double::set_capability(80);
  expect_refused(fp8, "FP8 needs 8.9");
}

TEST_F(CublasLtDouble, WhoSharesTheWorkspaceFindsNan) {
  Call call;
  call.a_offset = 1 << 20;  // a begins where the workspace begins
  ASSERT_EQ(call.run(), CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(std::isnan(call.d[0]));
}

}  // namespace
