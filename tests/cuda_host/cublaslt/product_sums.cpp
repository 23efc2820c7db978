#include "product_sums.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace cublaslt_double {
namespace {

// Overwritten at either end of a workspace.
constexpr size_t kPoisonedBytes = 1 << 20;
/// The place of the scale of element (i, l): i along the kept dim, l along the contracted one.
int64_t scale_index(int mode, int64_t kept, int64_t contracted, int64_t i, int64_t l) {
  const int64_t blocks = (contracted + 127) / 128;
  switch (mode) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F:
      return l / 128 * kept + i;
    case CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F:
      return i / 128 * ((blocks + 3) / 4 * 4) + l / 128;
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3:
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0: {
      const int64_t group = l / (mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3 ? 16 : 32);
      const int64_t across = mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3
                                 ? (contracted + 63) / 64
                                 : (contracted + 127) / 128;
      return (i / 128 * across + group / 4) * 512 + i % 32 * 16 + i % 128 / 32 * 4 + group % 4;
    }
    default:
      return 0;
  }
}

/// [kept, contracted] of an operand as FP32, times the group scales.
std::vector<float> widened(const void* data, const cublasLtLayoutDouble& layout, bool last,
                           int mode, const void* scales) {
  const auto kept = static_cast<int64_t>(last ? layout.columns : layout.rows);
  const auto contracted = static_cast<int64_t>(last ? layout.rows : layout.columns);
  std::vector<float> out(static_cast<size_t>(kept * contracted));
  for (int64_t i = 0; i < kept; ++i) {
    for (int64_t l = 0; l < contracted; ++l) {
      float value = read_element(data, layout.type, last ? i * layout.ld + l : l * layout.ld + i);
      if (mode != CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F) {
        const int64_t at = scale_index(mode, kept, contracted, i, l);
        if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3) {
          value *= e4m3_value(static_cast<const uint8_t*>(scales)[at]);
        } else if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0) {
          value *= e8m0_value(static_cast<const uint8_t*>(scales)[at]);
        } else {
          value *= static_cast<const float*>(scales)[at];
        }
      }
      out[static_cast<size_t>(i * contracted + l)] = value;
    }
  }
  return out;
}

}  // namespace

void compute(const Problem& p, const Pointers& at, size_t parts) {
  if (at.workspace != nullptr) {
    const size_t part = std::min(at.workspace_bytes, kPoisonedBytes);
    std::memset(at.workspace, 0xff, part);
    std::memset(static_cast<char*>(at.workspace) + at.workspace_bytes - part, 0xff, part);
  }
  const float alpha = at.device_alpha != nullptr ? *at.device_alpha : at.alpha;
  const float beta = at.device_beta != nullptr ? *at.device_beta : at.beta;
  float factor = alpha;
  if (p.is_narrow && p.desc.a_mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F) {
    factor = alpha * (*static_cast<const float*>(p.desc.a_scale) *
                      *static_cast<const float*>(p.desc.b_scale));
  }
  const std::vector<float> a = widened(at.a, p.a, p.transa, p.desc.a_mode, p.desc.a_scale);
  const std::vector<float> b = widened(at.b, p.b, !p.transb, p.desc.b_mode, p.desc.b_scale);
  const auto k = static_cast<size_t>(p.k);
  // [k, m], so that the innermost loop runs over elements and each sum keeps its order.
  std::vector<float> across(a.size()), sums(static_cast<size_t>(p.m)), part(sums.size());
  for (size_t i = 0; i < sums.size(); ++i)
    for (size_t l = 0; l < k; ++l) across[l * sums.size() + i] = a[i * k + l];
  for (int64_t j = 0; j < p.n; ++j) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (size_t n = 0; n < parts; ++n) {
      std::fill(part.begin(), part.end(), 0.0f);
      for (size_t l = k * n / parts; l < k * (n + 1) / parts; ++l) {
        const float y = b[static_cast<size_t>(j) * k + l];
        const float* x = across.data() + l * sums.size();
        for (size_t i = 0; i < sums.size(); ++i) part[i] += x[i] * y;
      }
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
    }
    for (int64_t i = 0; i < p.m; ++i) {
      float value = sums[static_cast<size_t>(i)] * factor;
      if (beta != 0) value += beta * read_element(at.c, p.c.type, j * p.c.ld + i);
      if (p.desc.epilogue == CUBLASLT_EPILOGUE_BIAS) {
        const auto type =
            p.desc.bias_type == -1 ? p.d.type : static_cast<cudaDataType_t>(p.desc.bias_type);
        value += read_element(p.desc.bias, type, i);
      }
      write_element(at.d, p.d.type, j * p.d.ld + i, value);
    }
  }
}

}  // namespace cublaslt_double
