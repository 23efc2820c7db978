// instruction sets: portable avx2 avx512
// FP32 products of few_rows.h: B is FP32, or 16 bits wide and widened. Compiled per instruction
// set.

#include "ops/cpu/gemm/few_rows_kernels.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

void copy_float_rows(const void* from, DType dtype, int64_t stride, int64_t rows, int64_t depth,
                     float* to) {
  if (dtype == DType::bf16) {
    copy_rows_of<bfloat16>(from, stride, rows, depth, to);
  } else if (dtype == DType::f16) {
    copy_rows_of<float16>(from, stride, rows, depth, to);
  } else {
    copy_rows_of<float>(from, stride, rows, depth, to);
  }
}

void float_product(const FewRowsProductOf<float>& p) {
  if (p.b_dtype == DType::bf16) {
    product_of_rows<Fused, bfloat16>(p);
  } else if (p.b_dtype == DType::f16) {
    product_of_rows<Fused, float16>(p);
  } else {
    product_of_rows<Fused, float>(p);
  }
}

}  // namespace

const FewRowsKernelsOf<float>& few_rows_kernels() {
  static constexpr FewRowsKernelsOf<float> kKernels{copy_float_rows, float_product};
  return kKernels;
}

}  // namespace viaduct::cpu::VIADUCT_ISA
