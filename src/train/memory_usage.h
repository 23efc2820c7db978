#pragma once
// What the operating system says this process occupies: beside the arena's own count it shows what
// the arena does not know.

#include <cstdint>

namespace viaduct {

struct ProcessMemory {
  /// Pages in memory now, and the most there ever were.
  int64_t resident_bytes = 0;
  int64_t peak_resident_bytes = 0;
};

/// From /proc/self/status; IoError where that is missing or reads otherwise.
ProcessMemory process_memory();

}  // namespace viaduct
