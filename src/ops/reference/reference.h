#pragma once
// The executable definition of every op: FP64 tensors, plain loops, straight from the formula of
// the contract. Backends are tested against it, and FP64 tensors on the cpu device run it, so whole
// layers run in FP64. One .cpp file a family; tensors are f64 (integers as in the contract),
// strides as the contract allows.

#include "ops/table.h"

namespace viaduct::reference {

#define VIADUCT_DECLARE_REFERENCE(name, Args, gpu) void name(const Args& args);
// Ops that only move or encode numbers have none: the cpu's own loops are their definition.
VIADUCT_OPS(VIADUCT_DECLARE_REFERENCE)
#undef VIADUCT_DECLARE_REFERENCE

// One run of the lists that these ops have.
void adamw(const AdamWArgs& args);
void momentum(const MomentumArgs& args);

}  // namespace viaduct::reference
