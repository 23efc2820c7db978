#pragma once
// Tensors whose values stand for several elements of a matrix.

#include "tensor/dtype.h"

namespace viaduct {

/// 2 for e2m1x2, where two neighbouring elements share a byte; otherwise 1.
inline int64_t elements_per_value(DType dtype) {
  return dtype == DType::e2m1x2 ? 2 : 1;
}

}  // namespace viaduct
