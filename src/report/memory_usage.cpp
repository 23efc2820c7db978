#include "report/memory_usage.h"

#include <fstream>
#include <sstream>
#include <string>

#include "base/error.h"

namespace viaduct {

ProcessMemory process_memory() {
  std::ifstream status("/proc/self/status");
  ProcessMemory memory;
  for (std::string line; std::getline(status, line);) {
    int64_t* target = line.starts_with("VmRSS:")   ? &memory.resident_bytes
                      : line.starts_with("VmHWM:") ? &memory.peak_resident_bytes
                                                   : nullptr;
    if (target == nullptr) continue;
    std::istringstream fields(line.substr(6));
    std::string unit;
    VIADUCT_CHECK(IoError, fields >> *target >> unit && unit == "kB",
                  "/proc/self/status: cannot read \"{}\"", line);
    *target *= 1024;
  }
  VIADUCT_CHECK(IoError, memory.resident_bytes > 0 && memory.peak_resident_bytes > 0,
                "/proc/self/status: no VmRSS and VmHWM");
  return memory;
}

}  // namespace viaduct
