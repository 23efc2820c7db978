#pragma once
// Counts of graphs in the double of the CUDA runtime since `reset_runtime`.

#include <cstdint>

namespace cuda_host {

struct GraphCounts {
  int64_t made = 0, launched = 0;
};
GraphCounts graph_counts();

}  // namespace cuda_host
