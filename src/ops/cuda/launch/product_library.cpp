#include "ops/cuda/launch/product_library.h"

#include <cublasLt.h>

#include <map>
#include <string>

#include "base/error.h"

namespace viaduct::cuda {
namespace {

constexpr int64_t kMostAlignment = 16;

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

std::string describe(const ProductKind& kind) {
  const auto matrix = [&](const ProductKind::Matrix& of, int64_t columns) {
    return fmt::format("{} [{}, {}]{}", dtype_name(of.format), of.rows, columns,
                       of.contracted_last ? "" : " transposed");
  };
  return fmt::format("{} = {} · {}ᵀ", matrix(kind.d, kind.b.rows), matrix(kind.a, kind.contracted),
                     matrix(kind.b, kind.contracted));
}

void check(cublasStatus_t status, std::string_view call, const std::string& what) {
  VIADUCT_CHECK(DeviceError, status == CUBLAS_STATUS_SUCCESS, "gemm: {} of {}: {}", call, what,
                cublasLtGetStatusString(status));
}

/// An object of the library, destroyed with its owner.
template <class T, cublasStatus_t (*kDestroy)(T)>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (object_ != nullptr) kDestroy(object_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  T* place() { return &object_; }
  T get() const { return object_; }

 private:
  T object_ = nullptr;
};
using Desc = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <class T>
void set(const Desc& desc, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublasLtMatmulDescSetAttribute(desc.get(), attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute", "attribute " + std::to_string(attribute));
}
template <class T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute", "attribute " + std::to_string(attribute));
}

/// The library is column-major: rows in memory are its columns. Its first operand is our b, so that
/// its result, columns first, is our rows.
void make_layout(Layout& layout, const ProductKind::Matrix& matrix, int64_t contracted) {
  const int64_t along = matrix.contracted_last ? contracted : matrix.rows;
  const int64_t across = matrix.contracted_last ? matrix.rows : contracted;
  check(cublasLtMatrixLayoutCreate(layout.place(), data_type(matrix.format),
                                   static_cast<uint64_t>(along), static_cast<uint64_t>(across),
                                   matrix.stride),
        "cublasLtMatrixLayoutCreate", "an operand");
}

struct Plan {
  Desc desc;
  Layout a, b, d;
  cublasLtMatmulAlgo_t algorithm;
};

/// What changes from one product of a kind to the next.
void set_addresses(const Desc& desc, const ProductKind& kind, const ProductMemory& memory) {
  if (kind.bias) set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, memory.bias);
  if (kind.a.scales == LibraryScales::none) return;
  set(desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, memory.b_scales);
  set(desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, memory.a_scales);
}

void make_desc(Plan& plan, const ProductKind& kind, const ProductMemory& memory) {
  check(cublasLtMatmulDescCreate(plan.desc.place(), CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate", "a product");
  const auto operation = [](bool transposed) -> int32_t {
    return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(plan.desc, CUBLASLT_MATMUL_DESC_TRANSA, operation(kind.b.contracted_last));
  set(plan.desc, CUBLASLT_MATMUL_DESC_TRANSB, operation(!kind.a.contracted_last));
  if (kind.bias) set(plan.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{CUBLASLT_EPILOGUE_BIAS});
  if (kind.device_factor)
    set(plan.desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, int32_t{CUBLASLT_POINTER_MODE_DEVICE});
  if (kind.a.scales != LibraryScales::none) {
    set(plan.desc, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, scale_mode(kind.b.scales));
    set(plan.desc, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, scale_mode(kind.a.scales));
  }
  set_addresses(plan.desc, kind, memory);
}

void choose_algorithm(cublasLtHandle_t handle, Plan& plan, const ProductKind& kind) {
  Preference preference;
  check(cublasLtMatmulPreferenceCreate(preference.place()), "cublasLtMatmulPreferenceCreate",
        "a product");
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
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, plan.desc.get(), plan.b.get(), plan.a.get(), plan.d.get(), plan.d.get(),
      preference.get(), 1, &result, &found);
  check(status, "cublasLtMatmulAlgoGetHeuristic", describe(kind));
  VIADUCT_CHECK(DeviceError, found == 1 && result.state == CUBLAS_STATUS_SUCCESS,
                "gemm: cuBLASLt has no algorithm for {}", describe(kind));
  plan.algorithm = result.algo;
}

}  // namespace

std::string product_library_version() {
  const size_t version = cublasLtGetVersion();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

int64_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  int64_t bytes = kMostAlignment;
  while (address % static_cast<uintptr_t>(bytes) != 0) bytes /= 2;
  return bytes;
}

struct ProductLibrary::Impl {
  Owned<cublasLtHandle_t, cublasLtDestroy> handle;
  std::map<ProductKind, Plan> plans;

  const Plan& plan(const ProductKind& kind, const ProductMemory& memory) {
    const auto found = plans.find(kind);
    if (found != plans.end()) {
      set_addresses(found->second.desc, kind, memory);
      return found->second;
    }
    Plan& made = plans[kind];
    try {
      make_desc(made, kind, memory);
      make_layout(made.a, kind.a, kind.contracted);
      make_layout(made.b, kind.b, kind.contracted);
      make_layout(made.d, {kind.d.format, kind.a.rows, kind.d.stride}, kind.b.rows);
      choose_algorithm(handle.get(), made, kind);
    } catch (...) {
      plans.erase(kind);
      throw;
    }
    return made;
  }
};

ProductLibrary::ProductLibrary() : impl_(std::make_unique<Impl>()) {
  check(cublasLtCreate(impl_->handle.place()), "cublasLtCreate", "a handle");
}
ProductLibrary::~ProductLibrary() = default;

int64_t ProductLibrary::kinds() const {
  return static_cast<int64_t>(impl_->plans.size());
}

void ProductLibrary::multiply(const ProductKind& kind, const ProductMemory& memory, Stream stream) {
  const Plan& plan = impl_->plan(kind, memory);
  const float one = 1, beta = kind.accumulate ? 1 : 0;
  const void* factors[2] = {&one, &beta};
  if (kind.device_factor) factors[0] = memory.factor, factors[1] = memory.factor + 1;
  // The library's workspace begins at a multiple of 256 bytes.
  constexpr uintptr_t kAlignment = kProductWorkspace - kLibraryWorkspace;
  const auto begin = reinterpret_cast<uintptr_t>(memory.workspace);
  auto* workspace =
      static_cast<char*>(memory.workspace) + (kAlignment - begin % kAlignment) % kAlignment;
  const cublasStatus_t status =
      cublasLtMatmul(impl_->handle.get(), plan.desc.get(), factors[0], memory.b, plan.b.get(),
                     memory.a, plan.a.get(), factors[1], memory.d, plan.d.get(), memory.d,
                     plan.d.get(), &plan.algorithm, workspace, kLibraryWorkspace, stream);
  check(status, "cublasLtMatmul", describe(kind));
}

}  // namespace viaduct::cuda
