#pragma once
// From the arguments of ops to those of kernels: formats and views. No CUDA header.

#include "base/error.h"
#include "ops/cuda/kernels/views.h"
#include "ops/cuda/launch/cuda_launches.h"

namespace viaduct::cuda {

/// DeviceError for a dtype without a kernel. f64 only where `with_f64`.
Format format_of(std::string_view op, DType dtype, bool with_f64 = false);

/// A tensor with dense rows, of up to 4 dims; nothing of nothing.
Rows rows_of(std::string_view op, const Tensor& tensor, bool with_f64 = false);
/// The same of a contiguous tensor that is taken as one row.
Rows one_row(std::string_view op, const Tensor& tensor, bool with_f64 = false);
/// A dense vector; nothing of nothing.
Vector vector_of(std::string_view op, const Tensor& tensor);

/// Elements of an undefined tensor: null.
template <class T>
T* pointer_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

/// Rows of a tensor: all its dims but the innermost.
int64_t row_count(const Tensor& tensor);
inline int64_t width_of(const Tensor& tensor) {
  return tensor.rank() > 0 ? tensor.dim(-1) : 1;
}

/// The stream that an op's kernels go to. Null on a device that is not the cuda device: tests of
/// single ops on the emulator, which runs a kernel at once then.
Stream stream_of(const OpContext& context);

}  // namespace viaduct::cuda
