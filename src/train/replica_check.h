#pragma once
// Ranks that hold copies of the same weights must hold the same bits. A copy that differs (memory
// that failed, a message that was lost) trains another model on that rank, and no loss shows it.

#include <string>

#include "train/engine.h"

namespace viaduct {

/// Compares the weights of all data-parallel ranks, and the masters of optimizer instances. Which
/// tensor of which rank differs from the first rank's copy of it, the same text on all ranks; ""
/// if none does. All ranks call it, between steps.
std::string differing_replica(Engine& engine);

}  // namespace viaduct
