#pragma once
// The clock that durations are measured with.

#include <chrono>

namespace viaduct {

/// Seconds of the steady clock, from a beginning of its own: for differences alone.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace viaduct
