#pragma once
// The part of a device's memory that a plan divides into places. It only computes addresses, and
// touches no memory.

#include <map>
#include <unordered_map>
#include <vector>

#include "device/memory_plan.h"

namespace viaduct {

class PlannedArena {
 public:
  /// Places in the `bytes` of memory at `base`, at least as many as the plan needs. Not owned.
  PlannedArena(const MemoryPlan& plan, void* base, int64_t bytes);

  void begin(MemorySequence sequence);
  void end() { sequence_ = -1; }
  bool in_sequence() const { return sequence_ >= 0; }
  int64_t bytes() const { return bytes_; }

  /// The planned place of the next allocation of this tag and size or, if that place is still in
  /// use, a free one of the same tag and size; null outside of sequences, and if the plan has none.
  /// Allocations that outlive a sequence have separate places from those that do not: in a shared
  /// place, one that survives would block the next use.
  void* take(int64_t bytes, MemoryTag tag);
  /// The smallest free stretch above what is resident that has room for an allocation without a
  /// place of its own, such as experts' rows, whose number the data decide: what the plan has for
  /// them would else be taken twice. An allocation that finds its place used so gets another one,
  /// as above, or a stretch. What is kept for the backward leaves out the places of much larger
  /// allocations that are still to come in the sequence (the logits'): these would find no other
  /// room. Null outside of sequences, and if none has room.
  void* take_spare(int64_t bytes, MemoryTag tag);
  /// False if `data` is not in this arena.
  bool give(void* data);

 private:
  struct Places {
    std::vector<int64_t> offsets;
    size_t next = 0;
  };
  /// Places by tag and size.
  using Sequence = std::unordered_map<uint64_t, Places>;
  /// Offset and end.
  using Stretch = std::pair<int64_t, int64_t>;

  /// What is held, and the places still to come of allocations of at least `least` bytes; sorted.
  std::vector<Stretch> held_or_coming(int64_t least) const;
  void* hold(int64_t offset, int64_t bytes);
  void* take_resident(uint64_t key, int64_t bytes);

  char* base_;
  int64_t bytes_;
  int64_t resident_end_ = 0;
  std::vector<Sequence> sequences_;
  Sequence resident_;
  int sequence_ = -1;
  std::map<int64_t, int64_t> held_;  // offset → end; no two overlap, whatever the program does
};

}  // namespace viaduct
