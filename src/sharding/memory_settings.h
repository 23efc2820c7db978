#pragma once
// What a run keeps in memory, and in which form.

#include <optional>

#include "device/slot_memory.h"
#include "nn/saved_policy.h"

namespace viaduct {

/// Of the micro-batches (and chunks) that a stage holds at one time, this many follow
/// MemorySettings::saved_policy, the others `others`.
struct PartialRecompute {
  int64_t micro_batches = 0;
  SavedPolicy others;
};

struct MemorySettings {
  SavedPolicy saved_policy;  // which values of forwards are recomputed in backwards, or offloaded
  std::optional<PartialRecompute> partial;  // none: all micro-batches are the same
  SecondMemorySettings second_memory;       // where offloaded values are stored
  bool packed_weights = false;  // products read their weights as tiles that a step makes once

  double offloaded_state = 0;          // masters and optimizer states of this part of the elements
  bool overlaps_state_copies = false;  // with the update of others
  bool offloads_weights = false;       // this rank's shards of weights and main gradients

  bool offloads_saved() const {
    return saved_policy.offloads() || (partial && partial->others.offloads());
  }
  /// Anything that lives in the second memory for longer than a step.
  bool offloads_parameters() const { return offloaded_state > 0 || offloads_weights; }
  bool offloads() const { return offloads_saved() || offloads_parameters(); }
};

}  // namespace viaduct
