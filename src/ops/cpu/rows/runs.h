#pragma once
// Cuts an elementwise op into runs of neighbouring elements for the pool. The cut depends on shapes
// and strides only.

#include <algorithm>
#include <initializer_list>

#include "base/thread_pool.h"
#include "tensor/tensor.h"

namespace viaduct::cpu {

/// Minimum elements of a task, if the tensor has them: enough to outweigh the start of a task.
inline constexpr int64_t kRunElements = 1 << 14;

/// Address of element `column` of row `row`, rows (dense) counted over all outer dims.
inline std::byte* row_address(const Tensor& tensor, int64_t row, int64_t column) {
  int64_t offset = column;
  for (int d = tensor.rank() - 2; d >= 0; --d) {
    const int64_t size = tensor.shape()[d];
    offset += row % size * tensor.stride(d);
    row /= size;
  }
  return static_cast<std::byte*>(tensor.raw()) + offset * dtype_bytes(tensor.dtype());
}

/// Calls body(row, begin, n) on the pool for runs that cover `rows` rows of `width` elements: the
/// elements [begin, begin + n) of a row.
template <class Body>
void for_row_runs(ThreadPool& pool, int64_t rows, int64_t width, const Body& body) {
  if (rows == 0 || width == 0) return;
  const int64_t pieces = (width + kRunElements - 1) / kRunElements;  // of a row
  const int64_t rows_per_task = std::max<int64_t>(1, kRunElements / width);
  const int64_t row_tasks = (rows + rows_per_task - 1) / rows_per_task;
  pool.run(row_tasks * pieces, [&](int64_t task, int) {
    const int64_t begin = task % pieces * kRunElements, row_begin = task / pieces * rows_per_task;
    const int64_t n = std::min(kRunElements, width - begin);
    for (int64_t r = row_begin; r < std::min(rows, row_begin + rows_per_task); ++r)
      body(r, begin, n);
  });
}

/// The same over tensors of one shape. Inner dims without gaps in all tensors are merged into one
/// dim, so that a row is as long as possible.
template <class Body>
void for_runs(ThreadPool& pool, std::initializer_list<const Tensor*> tensors, const Body& body) {
  const Tensor& first = **tensors.begin();
  const int64_t elements = first.elements();
  if (elements == 0) return;
  int64_t width = first.rank() == 0 ? 1 : first.dim(-1), joined = 1;  // joined: rows of one dim(-1)
  for (int outer = first.rank() - 2; outer >= 0; --outer) {
    const bool joins = std::all_of(tensors.begin(), tensors.end(), [&](const Tensor* t) {
      return t->dim(outer) == 1 || t->stride(outer) == width;
    });
    if (!joins) break;
    width *= first.dim(outer);
    joined *= first.dim(outer);
  }
  for_row_runs(pool, elements / width, width,
               [&](int64_t row, int64_t begin, int64_t n) { body(row * joined, begin, n); });
}

}  // namespace viaduct::cpu
