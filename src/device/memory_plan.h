#pragma once
// Places for allocations, known in advance: a dry run of the same program has recorded the
// allocations (engine/plan_memory.h makes the plan, timeline/placement.h finds the places).

#include <array>
#include <cstdint>
#include <vector>

#include "device/memory_tag.h"

namespace viaduct {

/// A stretch of the program that makes the same allocations each time it runs: building the engine,
/// initial weights, a training step, an evaluated micro-batch.
enum class MemorySequence { setup, initialize, step, evaluate };
inline constexpr int kMemorySequences = 4;

/// Instead of an offset: one of the places of resident allocations.
inline constexpr int64_t kResident = -1;

struct PlannedAllocation {
  MemoryTag tag = MemoryTag::other;
  int64_t bytes = 0;
  int64_t offset = 0;  // in the arena, a multiple of 64; or kResident
};

struct MemoryPlan {
  int64_t arena_bytes = 0;
  /// Allocations held across sequences (weights, moments, …), whichever sequence makes them first.
  std::vector<PlannedAllocation> resident;
  /// Allocations made within a sequence, by MemorySequence, in program order; those that outlive it
  /// have the offset kResident. Within a sequence, the n-th allocation of a tag and size gets the
  /// place of the n-th one here, so that an allocation that the dry run did not foresee (a size
  /// that depends on data) does not shift the following ones.
  std::array<std::vector<PlannedAllocation>, kMemorySequences> sequences;
};

/// Equal for plans whose allocations, in order, have the same places, whatever their sizes; with
/// near certainty for them alone.
uint64_t fingerprint_of(const MemoryPlan& plan);

}  // namespace viaduct
