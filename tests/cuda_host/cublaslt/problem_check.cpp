#include "problem_check.h"

#include "number_codes.h"

namespace cublaslt_double {
namespace {

/// Whether a GPU of this capability supports products with such scales: empty, or the error.
std::string check_scales(const Problem& p, int capability) {
  const auto blocks = [](int mode) {
    return mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F ||
           mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  };
  const int a = p.desc.a_mode, b = p.desc.b_mode;
  if (p.has_fp4 && (a != CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3 || a != b))
    return "e2m1 has scales of 16 elements";
  if (!p.has_fp4 && a == CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3)
    return "scales of 16 elements are e2m1's";
  if (a == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F && a == b)
    return "not both operands in squares of 128";
  if (blocks(a) != blocks(b) || (!blocks(a) && a != b)) return "scales of two kinds";
  if (blocks(a) && capability != 90) return "blocks of 128 are those of 9.0";
  if (blocks(a) && (p.m % 4 != 0 || p.n % 4 != 0))
    return "with blocks of 128, m and n are multiples of 4";
  const bool bytes = a == CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0 ||
                     a == CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3;
  if (bytes && capability < 100) return "scales of 16 and 32 elements need 10.0";
  if (bytes && p.k % 32 != 0) return "with scales of 16 and 32 elements, k is a multiple of 32";
  const auto placed = [&](const void* scales) {
    return scales != nullptr &&
           reinterpret_cast<uintptr_t>(scales) % (blocks(a) || bytes ? 16 : 4) == 0;
  };
  if (!placed(p.desc.a_scale) || !placed(p.desc.b_scale))
    return "scales are not there, or unaligned";
  return "";
}

std::string check_narrow(const Problem& p, int capability) {
  if (!p.is_narrow)
    return p.desc.a_scale == nullptr && p.desc.b_scale == nullptr ? "" : "scales of wide elements";
  if (capability < 89) return "FP8 needs 8.9";
  if (p.has_fp4 && (capability < 100 || p.a.type != p.b.type)) return "e2m1 needs 10.0";
  if (p.a.type == CUDA_R_8F_E5M2 && p.a.type == p.b.type) return "e5m2 times e5m2";
  if ((p.has_fp4 || capability < 100) && !(p.transa && !p.transb))
    return "only a transposed times b as it is";
  const auto aligned = [](const cublasLtLayoutDouble& l) {
    return l.ld * bits_of(l.type) % 128 == 0 &&
           static_cast<int64_t>(l.rows) * bits_of(l.type) % 128 == 0;
  };
  if (p.a.type != p.b.type && bits_of(p.a.type) != bits_of(p.b.type))
    return "operands of two sizes";
  if (!aligned(p.a) || !aligned(p.b) || !aligned(p.d))
    return "rows and leading dimensions are not multiples of 16 bytes";
  return check_scales(p, capability);
}

}  // namespace

std::string check(const Problem& p, int capability) {
  const int64_t depth = static_cast<int64_t>(p.transb ? p.b.columns : p.b.rows);
  if (depth != p.k) return "a and b contract different sizes";
  if (static_cast<int64_t>(p.d.rows) != p.m || static_cast<int64_t>(p.d.columns) != p.n)
    return "d has other sizes than the product";
  if (p.c.rows != p.d.rows || p.c.columns != p.d.columns || p.c.type != p.d.type)
    return "c is not like d";
  for (const cublasLtLayoutDouble* l : {&p.a, &p.b, &p.c, &p.d}) {
    if (l->ld < static_cast<int64_t>(l->rows)) return "a leading dimension below the rows";
    if (l->rows == 0 || l->columns == 0) return "an empty matrix";
  }
  if (!p.is_narrow && p.a.type != p.b.type) return "operands of two formats";
  if (p.d.type != CUDA_R_32F && p.d.type != CUDA_R_16BF && p.d.type != CUDA_R_16F)
    return "d in a format that is not written";
  if (!p.is_narrow && p.d.type != CUDA_R_32F && p.d.type != p.a.type)
    return "d in another 16-bit format than the operands";
  if (p.desc.epilogue == CUBLASLT_EPILOGUE_BIAS) {
    const int expected = p.is_narrow && p.d.type == CUDA_R_32F ? CUDA_R_16BF : p.d.type;
    const int type = p.desc.bias_type == -1 ? expected : p.desc.bias_type;
    if (type != expected) return "a bias of another format than d's";
    if (p.desc.bias == nullptr) return "no bias";
  } else if (p.desc.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    return "an epilogue that the double does not have";
  }
  return check_narrow(p, capability);
}

}  // namespace cublaslt_double
