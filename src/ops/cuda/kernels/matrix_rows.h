#pragma once
// Which rows belong to each of several matrices that lie one after the other: the operands of the
// experts of a rank. Where rows differ in number, only the device knows how many each has.

#include <cstdint>

namespace viaduct::cuda {

/// Matrix m has the rows [offsets[m], offsets[m + 1]), or without offsets `each` rows.
struct MatrixRows {
  int64_t rows = 0;  // of all; with offsets, those from the last on belong to no matrix
  int64_t each = 0;
  int64_t count = 1;
  const int32_t* offsets = nullptr;  // i32 [count + 1] in the device's memory
};

inline MatrixRows one_matrix(int64_t rows) {
  return {rows, rows};
}

/// Groups of `group` rows that begin at each matrix's first row are numbered through all matrices.
/// With offsets the number of a matrix's first group depends on its first row alone, so that a few
/// numbers are of no group: rows / group + count are enough for any offsets.
inline int64_t groups_of_offsets(int64_t rows, int64_t count, int64_t group) {
  return rows / group + count;
}
inline int64_t row_groups(const MatrixRows& of, int64_t group) {
  return of.offsets != nullptr ? groups_of_offsets(of.rows, of.count, group)
                               : of.count * ((of.each + group - 1) / group);
}

}  // namespace viaduct::cuda
