#pragma once
// Rotary position embedding in place (ops/rotary.h), with the cpu's bits. A position outside of the
// table, which the host does not see, makes NaN.

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

struct RotaryRows {
  Rows x;  // heads of tokens: row t · heads + n
  const int32_t* positions;
  const float *cos, *sin;  // [table, half]
  int64_t tokens, heads, half, table;
  bool inverse, interleaved;
};
void rotary(const RotaryRows& args, Stream stream);

}  // namespace viaduct::cuda
