#pragma once
// The clock that measures durations.

#include <chrono>

namespace viaduct {

/// Seconds of the steady clock since an arbitrary start: only differences mean anything.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace viaduct
