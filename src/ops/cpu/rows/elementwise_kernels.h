#pragma once
// Kernels of the elementwise family per instruction set (see gemm_kernels.h): one run of n
// neighbouring elements each. Dtypes are f32, bf16 or f16.

#include <cstdint>

#include "ops/cpu/kernel_sets.h"
#include "tensor/dtype.h"

namespace viaduct::cpu {

/// The mask of a run of features of one token: feature `first_feature` + i is kept iff the upper 23
/// bits of its random word are ≥ `threshold`; kept features are multiplied by `factor`.
struct DropoutRun {
  uint64_t key;
  uint64_t token;
  uint64_t first_feature;
  int32_t threshold;
  float factor;
};

struct ElementwiseKernels {
  void (*add)(const void* a, DType a_dtype, const void* b, DType b_dtype, void* out,
              DType out_dtype, int64_t n);
  void (*multiply)(const void* a, DType a_dtype, const void* b, DType b_dtype, void* out,
                   DType out_dtype, int64_t n);
  void (*copy)(const void* from, DType from_dtype, void* to, DType to_dtype, bool accumulate,
               int64_t n);
  void (*scale)(const void* x, DType x_dtype, float factor, void* out, DType out_dtype, int64_t n);
  void (*fill)(float value, void* out, DType out_dtype, int64_t n);
  /// residual may be null.
  void (*dropout)(const DropoutRun& run, const void* x, DType x_dtype, const void* residual,
                  DType residual_dtype, void* out, DType out_dtype, int64_t n);
  /// out [n]: normal random numbers of the elements `element`, `element` + `step`, …
  /// (ops/elementwise.h).
  void (*normal)(uint64_t key, uint64_t element, uint64_t step, int64_t n, double* out);
};

VIADUCT_KERNELS_FUNCTION_WITH_BF16(ElementwiseKernels, elementwise_kernels)

}  // namespace viaduct::cpu
