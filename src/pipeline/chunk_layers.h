#pragma once
// The layers of a model chunk, the unit of pipeline schedules. A rank holds one chunk, or several
// with virtual stages.

#include <cstdint>

namespace viaduct {

struct ChunkLayers {
  bool embedding = true;
  int64_t first_block = 0,
          blocks = 0;  // global number of its first transformer block, and how many
  bool head = true;
};

}  // namespace viaduct
