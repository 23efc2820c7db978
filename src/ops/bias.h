#pragma once
// The bias of a linear layer as an op of its own; `gemm` can add one in its epilogue.

#include "ops/dispatch.h"

namespace viaduct {

/// out [M, N] = x [M, N] + bias [N] (floating; dtypes may differ; rows may be strided). out may be
/// x.
struct BiasAddArgs {
  Tensor x, bias, out;
};
void bias_add(OpContext& context, const BiasAddArgs& args);

}  // namespace viaduct
