#pragma once
// Tile registers in memory, so that the AMX loops run on any machine: the same templates, with
// registers that also check the conditions that raise SIGILL on real ones.

#include "ops/cpu/tiles/tiles.h"

namespace viaduct::test {

/// The tile contract on emulated AMX registers of the calling thread, with packing in plain loops.
/// Throws std::logic_error for a product outside begin … end, or for unpaired calls of begin and
/// end.
const cpu::TileKernels& emulated_amx_kernels();

/// Emulated kernels whose product leaves out one register's products.
const cpu::TileKernels& broken_amx_kernels();

}  // namespace viaduct::test
