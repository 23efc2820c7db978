#include "timeline/record.h"

#include <utility>

namespace viaduct {

Cost& Cost::operator+=(const Cost& other) {
  for (int i = 0; i < kFlopFormats; ++i)
    flops[static_cast<size_t>(i)] += other.flops[static_cast<size_t>(i)];
  bytes_read += other.bytes_read;
  bytes_written += other.bytes_written;
  return *this;
}

void StepRecord::op(OpEntryRecord entry) {
  entry.at = position_++;
  ops_.push_back(std::move(entry));
}

void StepRecord::allocate(int64_t id, int64_t bytes, std::string tag) {
  open_[id] = allocations_.size();
  allocations_.push_back({id, bytes, std::move(tag), position_++, -1});
}

void StepRecord::release(int64_t id) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;  // allocated before the record was attached
  allocations_[found->second].released_at = position_++;
  open_.erase(found);
}

void StepRecord::host_read(std::string reason) {
  host_reads_.push_back({std::move(reason), position_++});
}

int64_t StepRecord::launch(CollectiveRecord entry) {
  entry.launched_at = position_++;
  collectives_.push_back(std::move(entry));
  return static_cast<int64_t>(collectives_.size()) - 1;
}

void StepRecord::complete(int64_t index, double wait_begin_seconds, double complete_seconds,
                          double busy_seconds) {
  if (index >= static_cast<int64_t>(collectives_.size())) return;  // launched before this record
  CollectiveRecord& entry = collectives_[static_cast<size_t>(index)];
  entry.completed_at = position_++;
  entry.wait_begin_seconds = wait_begin_seconds;
  entry.complete_seconds = complete_seconds;
  entry.busy_seconds = busy_seconds;
}

Cost StepRecord::total_cost() const {
  Cost sum;
  for (const auto& entry : ops_) sum += entry.cost;
  return sum;
}

StepRecord::Peak StepRecord::peak() const {
  std::map<int64_t, std::pair<size_t, bool>> events;  // position → (allocation, is release)
  for (size_t i = 0; i < allocations_.size(); ++i) {
    events[allocations_[i].allocated_at] = {i, false};
    if (allocations_[i].released_at >= 0) events[allocations_[i].released_at] = {i, true};
  }
  Peak peak;
  int64_t bytes = 0, peak_at = -1;
  for (const auto& [at, event] : events) {
    bytes += event.second ? -allocations_[event.first].bytes : allocations_[event.first].bytes;
    if (bytes > peak.bytes) peak.bytes = bytes, peak_at = at;
  }
  for (const auto& a : allocations_) {
    if (a.allocated_at <= peak_at && (a.released_at < 0 || a.released_at > peak_at))
      peak.bytes_by_tag[a.tag] += a.bytes;
  }
  return peak;
}

}  // namespace viaduct
