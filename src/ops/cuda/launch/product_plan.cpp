#include "ops/cuda/launch/product_plan.h"

#include "base/error.h"

namespace viaduct::cuda {
namespace {

using Desc = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    case DType::e4m3:
      return CUDA_R_8F_E4M3;
    case DType::e5m2:
      return CUDA_R_8F_E5M2;
    case DType::e2m1x2:
      return CUDA_R_4F_E2M1;
    default:
      fail<DeviceError>("gemm: cuBLASLt has no elements of {}", dtype_name(dtype));
  }
}

int32_t scale_mode(LibraryScales scales) {
  switch (scales) {
    case LibraryScales::lines_128:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    case LibraryScales::squares_128:
      return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    case LibraryScales::lines_32:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
    case LibraryScales::lines_16:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3;
    case LibraryScales::none:
    case LibraryScales::matrix:
      break;
  }
  return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
}

template <class T>
void set(const Desc& desc, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_library(cublasLtMatmulDescSetAttribute(desc.get(), attribute, &value, sizeof value),
                "cublasLtMatmulDescSetAttribute", "attribute " + std::to_string(attribute));
}
template <class T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  check_library(
      cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
      "cublasLtMatmulPreferenceSetAttribute", "attribute " + std::to_string(attribute));
}

/// The library is column-major: rows in memory are its columns. Its first operand is our b, so that
/// its result, columns first, is our rows.
void make_layout(Layout& layout, const ProductKind::Matrix& matrix, int64_t contracted) {
  const int64_t along = matrix.contracted_last ? contracted : matrix.rows;
  const int64_t across = matrix.contracted_last ? matrix.rows : contracted;
  check_library(cublasLtMatrixLayoutCreate(layout.place(), data_type(matrix.format),
                                           static_cast<uint64_t>(along),
                                           static_cast<uint64_t>(across), matrix.stride),
                "cublasLtMatrixLayoutCreate", "an operand");
}

void make_desc(Desc& desc, const ProductKind& kind, int multiprocessors) {
  check_library(cublasLtMatmulDescCreate(desc.place(), CUBLAS_COMPUTE_32F, CUDA_R_32F),
                "cublasLtMatmulDescCreate", "a product");
  const auto operation = [](bool transposed) -> int32_t {
    return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(desc, CUBLASLT_MATMUL_DESC_TRANSA, operation(kind.b.contracted_last));
  set(desc, CUBLASLT_MATMUL_DESC_TRANSB, operation(!kind.a.contracted_last));
  if (kind.bias) set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{CUBLASLT_EPILOGUE_BIAS});
  if (kind.spare_multiprocessors > 0) {
    const int32_t target = multiprocessors - kind.spare_multiprocessors;
    VIADUCT_CHECK(
        DeviceError, target > 0,
        "gemm: comm_overlap.set_sm_margin leaves {} multiprocessors to communication, and "
        "the GPU has {}; expected num_sm of at most {}",
        kind.spare_multiprocessors, multiprocessors, multiprocessors - 1);
    set(desc, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, target);
  }
  if (kind.device_factor)
    set(desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, int32_t{CUBLASLT_POINTER_MODE_DEVICE});
  if (kind.a.scales != LibraryScales::none) {
    set(desc, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, scale_mode(kind.b.scales));
    set(desc, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, scale_mode(kind.a.scales));
  }
}

void make_preference(Preference& preference, const ProductKind& kind) {
  check_library(cublasLtMatmulPreferenceCreate(preference.place()),
                "cublasLtMatmulPreferenceCreate", "a product");
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kLibraryWorkspace});
  // Parts of a sum are not rounded to the format of d before they are added.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  const auto align = [&](cublasLtMatmulPreferenceAttributes_t attribute, int64_t bytes) {
    set(preference, attribute, static_cast<uint32_t>(bytes));
  };
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kind.b.alignment);
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kind.a.alignment);
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kind.d.alignment);
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kind.d.alignment);
}

}  // namespace

void check_library(cublasStatus_t status, std::string_view call, const std::string& what) {
  VIADUCT_CHECK(DeviceError, status == CUBLAS_STATUS_SUCCESS, "gemm: {} of {}: {}", call, what,
                cublasLtGetStatusString(status));
}

ProductPlan::ProductPlan(cublasLtHandle_t handle, const ProductKind& kind,
                         const ProductMemory& memory, int multiprocessors)
    : handle_(handle), kind_(kind) {
  make_desc(desc_, kind, multiprocessors);
  set_addresses(memory);
  make_layout(a_, kind.a, kind.contracted);
  make_layout(b_, kind.b, kind.contracted);
  make_layout(d_, {kind.d.format, kind.a.rows, kind.d.stride}, kind.b.rows);
}

void ProductPlan::set_addresses(const ProductMemory& memory) {
  if (kind_.bias) set(desc_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, memory.bias);
  if (kind_.a.scales == LibraryScales::none) return;
  set(desc_, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, memory.b_scales);
  set(desc_, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, memory.a_scales);
}

std::vector<cublasLtMatmulAlgo_t> ProductPlan::algorithms(int most) const {
  Preference preference;
  make_preference(preference, kind_);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(most));
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, desc_.get(), b_.get(), a_.get(), d_.get(), d_.get(),
                                     preference.get(), most, results.data(), &found);
  check_library(status, "cublasLtMatmulAlgoGetHeuristic", describe(kind_));
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  }
  VIADUCT_CHECK(DeviceError, !algorithms.empty(), "gemm: cuBLASLt has no algorithm for {}",
                describe(kind_));
  return algorithms;
}

void ProductPlan::check(const cublasLtMatmulAlgo_t& algorithm, const std::string& where) const {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(handle_, desc_.get(), b_.get(), a_.get(),
                                                        d_.get(), d_.get(), &algorithm, &result);
  VIADUCT_CHECK(DeviceError, status == CUBLAS_STATUS_SUCCESS,
                "{}: cuBLASLt refuses the algorithm for {}: {}", where, describe(kind_),
                cublasLtGetStatusString(status));
  VIADUCT_CHECK(DeviceError, result.workspaceSize <= size_t{kLibraryWorkspace},
                "{}: the algorithm for {} needs a workspace of {} bytes, expected at most {}",
                where, describe(kind_), result.workspaceSize, kLibraryWorkspace);
}

void ProductPlan::multiply(const cublasLtMatmulAlgo_t& algorithm, const ProductMemory& memory,
                           void* d, Stream stream) const {
  const float one = 1, beta = kind_.accumulate ? 1 : 0;
  const void* factors[2] = {&one, &beta};
  if (kind_.device_factor) factors[0] = memory.factor, factors[1] = memory.factor + 1;
  // The library's workspace begins at a multiple of 256 bytes.
  constexpr uintptr_t kAlignment = kProductWorkspace - kLibraryWorkspace;
  const auto begin = reinterpret_cast<uintptr_t>(memory.workspace);
  auto* workspace =
      static_cast<char*>(memory.workspace) + (kAlignment - begin % kAlignment) % kAlignment;
  const cublasStatus_t status = cublasLtMatmul(
      handle_, desc_.get(), factors[0], memory.b, b_.get(), memory.a, a_.get(), factors[1], d,
      d_.get(), d, d_.get(), &algorithm, workspace, kLibraryWorkspace, stream);
  check_library(status, "cublasLtMatmul", describe(kind_));
}

}  // namespace viaduct::cuda
