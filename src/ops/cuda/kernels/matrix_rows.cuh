#pragma once
// The matrix that a row or a group of rows belongs to, found on the device.

#include "ops/cuda/kernels/kernel.h"
#include "ops/cuda/kernels/matrix_rows.h"

namespace viaduct::cuda {

/// The first row of matrix `index`, and of `count` the end of the last.
__device__ inline int64_t first_row(const MatrixRows& of, int64_t index) {
  return of.offsets != nullptr ? min(int64_t{of.offsets[index]}, of.rows) : index * of.each;
}

/// The number of its first group of `group` rows.
__device__ inline int64_t first_group(const MatrixRows& of, int64_t index, int64_t group) {
  return of.offsets != nullptr ? first_row(of, index) / group + index
                               : index * ((of.each + group - 1) / group);
}

/// A group of rows: its matrix, its number in it, and its rows, none if the number is of no group.
struct RowsOfGroup {
  int64_t matrix, number, begin, end;
};

__device__ inline RowsOfGroup rows_of_group(const MatrixRows& of, int64_t at, int64_t group) {
  int64_t matrix = 0, beyond = of.count;
  while (beyond - matrix > 1) {
    const int64_t middle = (matrix + beyond) / 2;
    (first_group(of, middle, group) <= at ? matrix : beyond) = middle;
  }
  RowsOfGroup found{matrix, at - first_group(of, matrix, group)};
  found.begin = first_row(of, matrix) + found.number * group;
  found.end = min(found.begin + group, first_row(of, matrix + 1));
  return found;
}

}  // namespace viaduct::cuda
