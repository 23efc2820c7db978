#pragma once
// A hint to the core that the thread is polling: saves power and leaves the other hardware thread
// room.

namespace viaduct {

inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace viaduct
