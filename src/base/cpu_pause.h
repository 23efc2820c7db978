#pragma once
// A hint to the core that the thread is polling: it saves power and frees resources for the other
// hardware thread.

namespace viaduct {

inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace viaduct
