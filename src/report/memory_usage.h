#pragma once
// The memory of this process according to the operating system; includes memory outside the arena.

#include <cstdint>

namespace viaduct {

struct ProcessMemory {
  /// Resident memory, now and at its peak.
  int64_t resident_bytes = 0;
  int64_t peak_resident_bytes = 0;
};

/// From /proc/self/status; IoError if it is missing or malformed.
ProcessMemory process_memory();

}  // namespace viaduct
