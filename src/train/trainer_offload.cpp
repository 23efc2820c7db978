// The trainer's second memory: opened and measured before the first step.

#include <algorithm>

#include "train/trainer.h"

namespace viaduct {

void Trainer::open_second_memory() {
  SlotMemory* const second =
      run_.purpose == EnginePurpose::train ? engine_->second_memory() : nullptr;
  if (second == nullptr) return;
  constexpr int64_t kMostMeasured = int64_t{16} << 20;
  const int64_t needed = planned_.offload.most_bytes;
  second->reserve(needed);
  offload_.where = second->describe();
  offload_.planned = planned_.offload;
  offload_.measured = second->measure(std::min(kMostMeasured, needed));
}

OffloadReport Trainer::offload() const {
  OffloadReport report = offload_;
  if (!report.empty()) report.done = engine_->second_memory()->counts();
  return report;
}

}  // namespace viaduct
