#pragma once
// Which allocations of a recorded step are kept from the forward of a micro-batch in a chunk of
// layers to its backward: these are placed in frames (timeline/frames.h).

#include <optional>
#include <vector>

#include "timeline/record.h"

namespace viaduct {

/// A micro-batch in a chunk.
struct KeptFor {
  int chunk = 0;
  int64_t micro_batch = 0;
};

class SavedFrames {
 public:
  /// `record` outlives it and does not change meanwhile.
  explicit SavedFrames(const StepRecord& record);

  /// Of an allocation made in a forward and released in a backward of the same micro-batch and
  /// chunk; nothing for all others: what a forward receives from another stage exists before it,
  /// and what it sends is freed when it is sent.
  std::optional<KeptFor> kept_for(const AllocationRecord& allocation) const;

 private:
  const ScopeRecord* phase_around(int64_t scope) const;

  const StepRecord& record_;
  std::vector<const ScopeRecord*> backwards_;  // in ascending order; they do not overlap
};

}  // namespace viaduct
