#pragma once
// Converts the arguments of ops to those of kernels: formats and views. No CUDA header.

#include "base/error.h"
#include "ops/cuda/kernels/views.h"
#include "ops/cuda/launch/cuda_launches.h"

namespace viaduct::cuda {

/// DeviceError for a dtype without a kernel. f64 only where `with_f64`.
Format format_of(std::string_view op, DType dtype, bool with_f64 = false);

/// A tensor with dense rows, of up to 4 dims; an empty view of an undefined tensor.
Rows rows_of(std::string_view op, const Tensor& tensor, bool with_f64 = false);
/// The same for a contiguous tensor as one row.
Rows one_row(std::string_view op, const Tensor& tensor, bool with_f64 = false);
/// A dense vector; an empty view of an undefined tensor.
Vector vector_of(std::string_view op, const Tensor& tensor);

/// Elements of an undefined tensor: null.
template <class T>
T* pointer_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

/// Rows of a tensor: all its dims except the innermost.
int64_t row_count(const Tensor& tensor);
inline int64_t width_of(const Tensor& tensor) {
  return tensor.rank() > 0 ? tensor.dim(-1) : 1;
}

/// The stream of an op's kernels. Null on a device that is not the cuda device: for tests of single
/// ops on the emulator, which then runs a kernel at once.
Stream stream_of(const OpContext& context);

}  // namespace viaduct::cuda
