#pragma once
// Figures about the whole model that take a pass over it, for steps that are logged. All ranks call
// them, between steps, and get the same.

#include <cstdint>

#include "engine/engine.h"

namespace viaduct {

/// The norm of all weights (masters, where there are some), each logical element once: bitwise the
/// same for every layout.
double weight_norm(Engine& engine);

/// How many elements of the last step's gradient are exactly zero, each logical element once.
int64_t zero_gradients(Engine& engine);

}  // namespace viaduct
