// The trainer's second memory: opened and measured before it is used.

#include <algorithm>

#include "run/device_memory.h"
#include "train/trainer.h"

namespace viaduct {

std::unique_ptr<SlotMemory> Trainer::open_second_memory() {
  if (run_.purpose != EnginePurpose::train || !run_.memory.offloads()) return nullptr;
  constexpr int64_t kMostMeasured = int64_t{16} << 20;
  const int64_t needed = planned_.offload.most_bytes;
  auto second = make_second_memory(run_.memory.second_memory, device_);
  second->reserve(needed);
  offload_.where = second->describe();
  offload_.planned = planned_.offload;
  offload_.measured = second->measure(std::min(kMostMeasured, needed));
  return second;
}

OffloadCounts Trainer::moved() const {
  const SlotMemory* const second = offload_.empty() ? nullptr : engine_->second_memory();
  return second == nullptr ? OffloadCounts() : second->counts();
}

}  // namespace viaduct
