#pragma once
// The part of the cpu device's memory in which a plan gives the places: one mapping, on huge pages
// where the system grants them.

#include <map>
#include <unordered_map>
#include <vector>

#include "device/cpu/system_memory.h"
#include "device/memory_plan.h"

namespace viaduct {

class PlannedArena {
 public:
  /// Maps the arena; the system commits pages at the first write. DeviceError if there is no room.
  explicit PlannedArena(const MemoryPlan& plan);

  void begin(MemorySequence sequence);
  void end() { sequence_ = -1; }
  bool in_sequence() const { return sequence_ >= 0; }
  int64_t bytes() const { return memory_.bytes(); }

  /// The planned place of the next allocation of this tag and size or, if that place is still in
  /// use, a free one of the same tag and size; null outside of sequences, and if the plan has none.
  void* take(int64_t bytes, MemoryTag tag);
  /// False if `data` is not in this arena.
  bool give(void* data);

 private:
  struct Places {
    std::vector<int64_t> offsets;
    size_t next = 0;
  };
  /// Places by tag and size.
  using Sequence = std::unordered_map<uint64_t, Places>;

  void* hold(int64_t offset, int64_t bytes);

  SystemMemory memory_;
  std::vector<Sequence> sequences_;
  Sequence resident_;
  int sequence_ = -1;
  std::map<int64_t, int64_t> held_;  // offset → end; no two overlap, whatever the program does
};

}  // namespace viaduct
