#include "hardware/cpu/amx_permission.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace viaduct::cpu {

bool request_amx_permission() {
#if defined(__x86_64__) && defined(SYS_arch_prctl)
  // asm/prctl.h of older kernels lacks these two (Linux 5.16, Documentation/arch/x86/xstate.rst).
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace viaduct::cpu
