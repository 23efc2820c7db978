#pragma once
// How much memory this machine has, so that what cannot fit is refused before it is built.

namespace viaduct {

/// Bytes of memory of the machine; a double, as sizes that are compared with it may be beyond
/// int64.
double physical_memory_bytes();

}  // namespace viaduct
