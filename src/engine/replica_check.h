#pragma once
// Ranks with copies of the same weights must hold the same bits. A different copy (failed memory, a
// lost message) trains another model on that rank without any sign in the loss.

#include <string>

#include "engine/engine.h"

namespace viaduct {

/// Compares the weights of all data-parallel ranks, and the masters of optimizer instances. Returns
/// which tensor of which rank differs from the first rank's copy, the same text on all ranks; "" if
/// none does. All ranks call it, between steps.
std::string differing_replica(Engine& engine);

}  // namespace viaduct
