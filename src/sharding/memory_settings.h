#pragma once
// What a run keeps in memory, and in which form.

#include <optional>

#include "nn/saved_policy.h"
#include "nn/slot_memory.h"

namespace viaduct {

/// Of the micro-batches (and chunks) that a stage holds at one time, so many follow
/// MemorySettings::saved_policy, the others this one.
struct PartialRecompute {
  int64_t micro_batches = 0;
  SavedPolicy others;
};

struct MemorySettings {
  SavedPolicy saved_policy;  // what of the forwards' values runs again in the backwards, or leaves
  std::optional<PartialRecompute> partial;  // none: all micro-batches are alike
  SecondMemorySettings second_memory;       // where what leaves goes
  bool packed_weights = false;  // products read their weights as tiles that a step makes once

  bool offloads() const {
    return saved_policy.offloads() || (partial && partial->others.offloads());
  }
};

}  // namespace viaduct
