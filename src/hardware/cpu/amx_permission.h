#pragma once
// Linux grants a process the AMX tile registers only on request, because they enlarge its context
// by 8 KB.

namespace viaduct::cpu {

/// Requests the tile registers for the whole process (all threads, also those already running);
/// true once granted. Cheap to repeat. It must succeed before any tile instruction: without
/// permission the first one ends the process with SIGILL.
bool request_amx_permission();

}  // namespace viaduct::cpu
