#pragma once
// What kernels of activations take, for the op itself and for products that have one as epilogue.

#include "ops/activation.h"
#include "ops/cuda/kernels/activation.h"

namespace viaduct::cuda {

/// Without rows.
ActivationRows activation_rows(ActivationKind kind, bool gated, const GateShape& shape);

}  // namespace viaduct::cuda
