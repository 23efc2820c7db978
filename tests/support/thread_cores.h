#pragma once
// The cores that a thread may use.

#include <sched.h>

#include <vector>

namespace viaduct::test {

/// Of the calling thread, ascending.
inline std::vector<int> cores_of_thread() {
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<size_t>(core), &set)) cores.push_back(core);
  return cores;
}

}  // namespace viaduct::test
