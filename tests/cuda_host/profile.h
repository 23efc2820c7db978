#pragma once
// Records what a profiler would have seen of this process since `reset_profile`: the double of the
// profiler's calls and of NVTX.

#include <string>
#include <vector>

namespace cuda_host {

/// "start", "stop", "+name" and "-" (the end of the innermost range of a thread), in order. An end
/// without a range is "- without a range".
std::vector<std::string> profile();
void reset_profile();

}  // namespace cuda_host
