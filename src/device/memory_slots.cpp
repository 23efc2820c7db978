#include "device/memory_slots.h"

#include <algorithm>

#include "base/error.h"

namespace viaduct {

int64_t MemorySlots::find(int64_t bytes) const {
  VIADUCT_CHECK(ShapeError, bytes > 0, "second memory: a slot of {} bytes", bytes);
  const int64_t size = rounded(bytes);
  int64_t offset = 0;
  for (const auto& [begin, taken] : taken_) {
    if (begin - offset >= size) break;
    offset = begin + taken;
  }
  return offset;
}

int64_t MemorySlots::take(int64_t bytes) {
  const int64_t offset = find(bytes), size = rounded(bytes);
  taken_[offset] = size;
  bytes_ += size;
  extent_ = std::max(extent_, offset + size);
  return offset;
}

void MemorySlots::give(int64_t offset) {
  const auto found = taken_.find(offset);
  VIADUCT_CHECK(ShapeError, found != taken_.end(), "second memory: no slot begins at {}", offset);
  bytes_ -= found->second;
  taken_.erase(found);
}

}  // namespace viaduct
