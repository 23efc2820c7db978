#pragma once
// Every allocation of a record, as JSON.

#include <string>

#include "timeline/record.h"

namespace viaduct {

struct MemoryHistorySettings {
  int rank = 0;
  int64_t first_step = 0, last_step = 0;  // numbers of the recorded steps
  double from_seconds = 0;                // time 0
};

/// {"rank", "first_step", "last_step", "peak_bytes", "peak_bytes_by_tag", "allocations": [{"bytes",
/// "tag", "owner", "allocated_at", "released_at", "allocated_seconds", "released_seconds",
/// "at_peak"}]}, in the order of allocation. `owner` is the path of scopes around the allocation
/// ("step 3/forward/blocks.1.mlp"); `…_at` are positions in the record, and `released_…` is null
/// for memory that was still held. The bytes of the `at_peak` entries add up to `peak_bytes`.
std::string memory_history(const StepRecord& record, const MemoryHistorySettings& settings);

}  // namespace viaduct
