#include "device/memory_plan.h"

#include "base/hash.h"

namespace viaduct {

uint64_t fingerprint_of(const MemoryPlan& plan) {
  Hasher64 hash;
  const auto add = [&](int64_t value) { hash.update(&value, sizeof value); };
  const auto add_all = [&](const std::vector<PlannedAllocation>& list) {
    add(static_cast<int64_t>(list.size()));
    for (const PlannedAllocation& one : list) add(one.offset);
  };
  add(plan.arena_bytes);
  add_all(plan.resident);
  for (const std::vector<PlannedAllocation>& sequence : plan.sequences) add_all(sequence);
  return hash.digest();
}

}  // namespace viaduct
