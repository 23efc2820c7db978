#include "device/planned_arena.h"

#include <algorithm>

namespace viaduct {
namespace {

constexpr int64_t kAlignment = 64;

// An allocation that is kept leaves out places of those this many times as large.
constexpr int64_t kMuchLarger = 3;

uint64_t key_of(MemoryTag tag, int64_t bytes) {
  return static_cast<uint64_t>(bytes) * kMemoryTags + static_cast<uint64_t>(tag);
}
int64_t bytes_of(uint64_t key) {
  return static_cast<int64_t>(key / kMemoryTags);
}

}  // namespace

PlannedArena::PlannedArena(const MemoryPlan& plan, void* base, int64_t bytes)
    : base_(static_cast<char*>(base)), bytes_(bytes), sequences_(kMemorySequences) {
  const auto add = [](Sequence& sequence, const std::vector<PlannedAllocation>& list) {
    for (const PlannedAllocation& a : list)
      sequence[key_of(a.tag, a.bytes)].offsets.push_back(a.offset);
  };
  for (size_t s = 0; s < sequences_.size(); ++s) add(sequences_[s], plan.sequences[s]);
  add(resident_, plan.resident);
  for (const PlannedAllocation& a : plan.resident)
    resident_end_ =
        std::max(resident_end_, a.offset + (a.bytes + kAlignment - 1) / kAlignment * kAlignment);
}

void PlannedArena::begin(MemorySequence sequence) {
  sequence_ = static_cast<int>(sequence);
  for (auto& [key, places] : sequences_[static_cast<size_t>(sequence_)]) places.next = 0;
}

void* PlannedArena::hold(int64_t offset, int64_t bytes) {
  const auto after = held_.upper_bound(offset);
  if (after != held_.end() && after->first < offset + bytes) return nullptr;
  if (after != held_.begin() && std::prev(after)->second > offset) return nullptr;
  held_.emplace_hint(after, offset, offset + bytes);
  return base_ + offset;
}

void* PlannedArena::take(int64_t bytes, MemoryTag tag) {
  if (sequence_ < 0) return nullptr;
  const uint64_t key = key_of(tag, bytes);
  Sequence& sequence = sequences_[static_cast<size_t>(sequence_)];
  if (const auto found = sequence.find(key); found != sequence.end()) {
    Places& places = found->second;
    const size_t count = places.offsets.size();
    if (places.next < count) {
      const size_t own = places.next++;
      if (places.offsets[own] == kResident) {
        if (void* place = take_resident(key, bytes)) return place;
      }
      // A step with fewer micro-batches than planned reaches places before they are free.
      for (size_t i = 0; i < count; ++i) {
        const int64_t offset = places.offsets[(own + i) % count];
        if (offset == kResident) continue;
        if (void* place = hold(offset, bytes)) return place;
      }
    }
  }
  return take_resident(key, bytes);
}

void* PlannedArena::take_resident(uint64_t key, int64_t bytes) {
  const auto found = resident_.find(key);
  if (found == resident_.end()) return nullptr;
  // Places are tried once each, in turn; a freed one is found on the next round.
  Places& places = found->second;
  for (size_t i = 0; i < places.offsets.size(); ++i) {
    const size_t at = (places.next + i) % places.offsets.size();
    if (void* place = hold(places.offsets[at], bytes)) {
      places.next = at + 1;
      return place;
    }
  }
  return nullptr;
}

std::vector<PlannedArena::Stretch> PlannedArena::held_or_coming(int64_t least) const {
  std::vector<Stretch> taken(held_.begin(), held_.end());
  for (const auto& [key, places] : sequences_[static_cast<size_t>(sequence_)]) {
    if (bytes_of(key) < least) continue;
    for (size_t i = places.next; i < places.offsets.size(); ++i) {
      const int64_t offset = places.offsets[i];
      if (offset != kResident) taken.emplace_back(offset, offset + bytes_of(key));
    }
  }
  std::sort(taken.begin(), taken.end());
  return taken;
}

void* PlannedArena::take_spare(int64_t bytes, MemoryTag tag) {
  if (sequence_ < 0) return nullptr;
  int64_t best = -1, best_room = 0;
  int64_t begin = resident_end_;
  const auto consider = [&](int64_t end) {
    const int64_t room = end - begin;
    if (room >= bytes && (best < 0 || room < best_room)) best = begin, best_room = room;
  };
  const auto leave_out = [&](const auto& stretches) {
    for (const auto& [offset, end] : stretches) {
      consider(offset);
      begin = std::max(begin, (end + kAlignment - 1) / kAlignment * kAlignment);
    }
  };
  if (tag == MemoryTag::saved)
    leave_out(held_or_coming(kMuchLarger * bytes));
  else
    leave_out(held_);
  consider(bytes_);
  return best < 0 ? nullptr : hold(best, bytes);
}

bool PlannedArena::give(void* data) {
  const char* at = static_cast<const char*>(data);
  if (at < base_ || at >= base_ + bytes_) return false;
  held_.erase(at - base_);
  return true;
}

}  // namespace viaduct
