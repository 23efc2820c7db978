#pragma once
// A product of cuBLASLt's double: what its descriptors specify, and its result.

#include <cublasLt.h>

#include <cstdint>

#include "number_codes.h"

struct cublasLtLayoutDouble {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t ld;
};
struct cublasLtDescDouble {
  int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  int32_t transa = CUBLAS_OP_N, transb = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void *bias = nullptr, *a_scale = nullptr, *b_scale = nullptr;
  int32_t bias_type = -1;
  int32_t sm_target = 0;
  int32_t a_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  int32_t b_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
};
namespace cublaslt_double {

/// A product as its descriptors specify it: d [m, n] = op(a) [m, k] · op(b) [k, n]. A copy: callers
/// may change or destroy descriptors before the stream runs.
struct Problem {
  cublasLtDescDouble desc;
  cublasLtLayoutDouble a, b, c, d;
  bool transa = desc.transa == CUBLAS_OP_T, transb = desc.transb == CUBLAS_OP_T;
  int64_t m = static_cast<int64_t>(transa ? a.columns : a.rows);
  int64_t k = static_cast<int64_t>(transa ? a.rows : a.columns);
  int64_t n = static_cast<int64_t>(transb ? b.rows : b.columns);
  bool has_fp4 = a.type == CUDA_R_4F_E2M1 || b.type == CUDA_R_4F_E2M1;
  bool is_narrow = bits_of(a.type) <= 8 || bits_of(b.type) <= 8;
};

/// The memory and the factors of a call.
struct Pointers {
  float alpha, beta;          // read when the library is called, or
  const float* device_alpha;  // if the pointers are to the device, when the stream runs
  const float* device_beta;
  const void *a, *b, *c;
  void *d, *workspace;
  size_t workspace_bytes;
};

/// Computes d, with sums of `parts` parts of the contracted dim.
void compute(const Problem& p, const Pointers& at, size_t parts);

}  // namespace cublaslt_double
