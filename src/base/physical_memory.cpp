#include "base/physical_memory.h"

#include <unistd.h>

namespace viaduct {

double physical_memory_bytes() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<double>(::sysconf(_SC_PAGESIZE));
}

}  // namespace viaduct
