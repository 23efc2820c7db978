#pragma once
// Rows of FP64 tensors [R, H] or [T, N, H], for the reference loops.

#include "tensor/tensor.h"

namespace viaduct::reference {

inline int64_t row_count(const Tensor& x) {
  return x.rank() == 3 ? x.dim(0) * x.dim(1) : x.dim(0);
}

inline double* row(const Tensor& x, int64_t r) {
  double* data = x.data<double>();
  if (x.rank() == 3) {
    return data + (r / x.dim(1)) * x.stride(0) + (r % x.dim(1)) * x.stride(1);
  }
  return data + r * x.stride(0);
}

}  // namespace viaduct::reference
