#pragma once
// Linux gives a process the AMX tile registers only on request, because they make its context 8 KB
// larger.

namespace viaduct::cpu {

/// Asks for the tile registers for the whole process (all threads, also those already running);
/// true once granted. Cheap to repeat. Call it, and see it succeed, before any tile instruction:
/// without permission the first one ends the process with SIGILL.
bool request_amx_permission();

}  // namespace viaduct::cpu
