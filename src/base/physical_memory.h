#pragma once
// The amount of memory of this machine, so that a run that cannot fit is refused before it is
// built.

namespace viaduct {

/// Bytes of memory of the machine; a double, because sizes compared with it may exceed int64.
double physical_memory_bytes();

}  // namespace viaduct
