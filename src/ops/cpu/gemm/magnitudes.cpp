#include "ops/cpu/gemm/magnitudes.h"

#include <algorithm>

#include "ops/cpu/gemm/nvfp4.h"
#include "ops/cpu/rows/runs.h"
#include "tensor/hadamard.h"

namespace viaduct::cpu {

int32_t largest_bits(const Tensor& matrix, const QuantizeKernels& kernels) {
  int32_t most = 0;
  const int64_t columns = matrix.dim(1);
  for (int64_t row = 0; row < matrix.dim(0); ++row) {
    for (int64_t column = 0; column < columns; column += kQuantizeColumns) {
      int32_t here = 0;
      kernels.group_magnitudes(row_address(matrix, row, column), matrix.dtype(),
                               std::min(kQuantizeColumns, columns - column), kQuantizeColumns,
                               &here);
      most = std::max(most, here);
    }
  }
  return most;
}

int32_t largest_rotated_bits(const Tensor& matrix, const Nvfp4Kernels& kernels) {
  int32_t most = 0;
  for (int64_t row = 0; row < matrix.dim(0); row += kRotated) {
    const int64_t rows = std::min<int64_t>(kRotated, matrix.dim(0) - row);
    most = std::max(most, rotated_magnitude(matrix, row, rows, kernels));
  }
  return most;
}

}  // namespace viaduct::cpu
