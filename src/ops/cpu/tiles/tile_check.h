#pragma once
// Checks that an instruction set's tile products compute correctly on this machine.

#include "ops/cpu/tiles/tiles.h"

namespace viaduct::cpu {

/// One packed product of 2 × 2 tiles and two steps, then once more added to itself, against plain
/// loops; values are chosen so that every sum is exact in FP32. Takes microseconds.
bool tiles_compute(const TileKernels& tiles);

}  // namespace viaduct::cpu
