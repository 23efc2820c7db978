#include "timeline/record.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/clock.h"

namespace viaduct {
namespace {

constexpr std::string_view kRecorded = "dry run of a rank";

}  // namespace

Cost& Cost::operator+=(const Cost& other) {
  for (int i = 0; i < kFlopFormats; ++i)
    flops[static_cast<size_t>(i)] += other.flops[static_cast<size_t>(i)];
  bytes_read += other.bytes_read;
  bytes_written += other.bytes_written;
  return *this;
}

double StepRecord::now() const {
  return timed_ ? steady_seconds() : 0;
}

void StepRecord::op(OpEntryRecord entry) {
  if (timed_) {
    auto found = counters_.ops.find(entry.op);
    if (found == counters_.ops.end())
      found = counters_.ops.try_emplace(std::string(entry.op)).first;
    OpCounter& counter = found->second;
    counter.launches += entry.launches;
    counter.seconds += entry.end_seconds - entry.begin_seconds;
  }
  if (counters_alone_) return;
  deadline_.check(kRecorded);
  entry.at = position_++;
  entry.scope = scope_;
  entry.in_graph = in_graph_;
  ops_.push_back(std::move(entry));
}

void StepRecord::allocate(int64_t id, int64_t bytes, std::string_view tag) {
  if (counters_alone_) return;
  deadline_.check(kRecorded);
  open_.add(id, allocations_.size());
  allocations_.push_back({id, bytes, tag, position_++, -1, scope_, now(), 0});
}

void StepRecord::release(int64_t id, int64_t bytes, std::string_view tag) {
  if (counters_alone_) return;
  const std::optional<size_t> found = open_.take(id);
  if (!found) {  // allocated before the record was attached
    older_releases_.push_back({bytes, tag, position_, now()});
    return;
  }
  allocations_[*found].released_at = position_++;
  allocations_[*found].released_seconds = now();
}

void StepRecord::reserve(const Room& room) {
  ops_.reserve(ops_.size() + room.ops);
  allocations_.reserve(allocations_.size() + room.allocations);
  collectives_.reserve(collectives_.size() + room.collectives);
  scopes_.reserve(scopes_.size() + room.scopes);
}

void StepRecord::set_marks(ScopeMarks* marks) {
  for (; marked_ > 0; --marked_) marks_->end();
  marks_ = marks;
}

int64_t StepRecord::open_scope(ScopeRecord entry) {
  if (marks_ != nullptr) {
    const std::string of =
        entry.micro_batch < 0 ? "" : " of micro-batch " + std::to_string(entry.micro_batch);
    marks_->begin(entry.name + of);
    ++marked_;
  }
  if (counters_alone_) return -1;
  entry.parent = scope_;
  entry.begin_at = position_++;
  entry.begin_seconds = now();
  scope_ = static_cast<int64_t>(scopes_.size());
  scopes_.push_back(std::move(entry));
  return scope_;
}

void StepRecord::close_scope(int64_t index) {
  if (marked_ > 0) {
    marks_->end();
    --marked_;
  }
  if (index < 0 || index >= static_cast<int64_t>(scopes_.size())) return;  // forgotten
  ScopeRecord& entry = scopes_[static_cast<size_t>(index)];
  entry.end_at = position_++;
  entry.end_seconds = now();
  scope_ = entry.parent;
}

void StepRecord::host_read(std::string reason, int64_t stream_position) {
  if (counters_alone_) return;
  host_reads_.push_back({std::move(reason), position_++, scope_, stream_position});
}

int64_t StepRecord::host_call(HostCallRecord entry) {
  if (counters_alone_) return -1;
  entry.posted_at = position_++;
  entry.post_seconds = now();
  entry.scope = scope_;
  host_calls_.push_back(std::move(entry));
  return dropped_calls_ + static_cast<int64_t>(host_calls_.size()) - 1;
}

void StepRecord::host_call_done(int64_t number, double wait_begin_seconds) {
  const int64_t index = number - dropped_calls_;
  if (index < 0 || index >= static_cast<int64_t>(host_calls_.size())) return;  // forgotten
  HostCallRecord& entry = host_calls_[static_cast<size_t>(index)];
  entry.wait_at = position_++;
  entry.complete_seconds = now();
  entry.wait_begin_seconds = timed_ ? wait_begin_seconds : 0;
}

int64_t StepRecord::count_collective(const CollectiveRecord& entry) {
  auto& all = counters_.collectives;
  size_t place = 0;
  while (place < all.size() &&
         (all[place].group != entry.group || all[place].operation != entry.operation))
    ++place;
  if (place == all.size()) all.push_back({entry.operation, entry.group});
  ++all[place].count;
  all[place].wire_bytes += entry.wire_bytes;
  return static_cast<int64_t>(place);
}

// Places stay: earlier launches are still to be counted where they are waited for.
void StepRecord::reset_counters() {
  counters_.ops.clear();
  for (CollectiveCounter& c : counters_.collectives)
    c.count = c.wire_bytes = 0, c.wait_seconds = c.busy_seconds = 0;
}

int64_t StepRecord::launch(CollectiveRecord entry) {
  if (timed_) entry.counter = count_collective(entry);
  if (counters_alone_) return entry.counter;
  entry.launched_at = position_++;
  entry.scope = scope_;
  collectives_.push_back(std::move(entry));
  return dropped_collectives_ + static_cast<int64_t>(collectives_.size()) - 1;
}

void StepRecord::complete(int64_t number, double wait_begin_seconds, double complete_seconds,
                          double busy_seconds, bool blocks_host) {
  const auto count = [&](int64_t place) {
    if (place < 0 || place >= static_cast<int64_t>(counters_.collectives.size())) return;
    CollectiveCounter& counter = counters_.collectives[static_cast<size_t>(place)];
    counter.wait_seconds += complete_seconds - wait_begin_seconds;
    counter.busy_seconds += busy_seconds;
  };
  if (counters_alone_) return count(number);
  const int64_t index = number - dropped_collectives_;
  // Launched before this record, or dropped since.
  if (index < 0 || index >= static_cast<int64_t>(collectives_.size())) return;
  CollectiveRecord& entry = collectives_[static_cast<size_t>(index)];
  entry.completed_at = position_++;
  entry.wait_begin_seconds = wait_begin_seconds;
  entry.complete_seconds = complete_seconds;
  entry.busy_seconds = busy_seconds;
  entry.blocks_host = blocks_host;
  count(entry.counter);
}

void StepRecord::drop_finished() {
  dropped_calls_ += static_cast<int64_t>(host_calls_.size());
  dropped_collectives_ += static_cast<int64_t>(collectives_.size());
  ops_.clear(), host_reads_.clear(), host_calls_.clear(), collectives_.clear(), edges_.clear();
  stream_calls_.clear();
  older_releases_.clear();
  std::vector<AllocationRecord> held;
  std::vector<ScopeRecord> scopes;
  std::map<int64_t, int64_t> moved{{-1, -1}};  // old index of a scope → new one
  const auto keep = [&](auto&& self, int64_t scope) -> int64_t {
    if (const auto found = moved.find(scope); found != moved.end()) return found->second;
    ScopeRecord entry = scopes_[static_cast<size_t>(scope)];
    entry.parent = self(self, entry.parent);
    scopes.push_back(std::move(entry));
    return moved[scope] = static_cast<int64_t>(scopes.size()) - 1;
  };
  open_.set_aside([&](size_t index) {
    AllocationRecord& allocation = allocations_[index];
    allocation.scope = keep(keep, allocation.scope);
    held.push_back(allocation);
    return held.size() - 1;
  });
  scope_ = -1;  // called between steps, where no scope is open
  allocations_ = std::move(held);
  scopes_ = std::move(scopes);
}

std::string StepRecord::scope_path(int64_t scope) const {
  if (scope < 0) return "";
  const ScopeRecord& entry = scopes_[static_cast<size_t>(scope)];
  const std::string around = scope_path(entry.parent);
  return around.empty() ? entry.name : around + "/" + entry.name;
}

RecordScope::RecordScope(StepRecord* record, ScopeKind kind, std::string_view name,
                         std::string_view part, int64_t micro_batch, int chunk)
    : record_(record) {
  if (record_ == nullptr) return;
  ScopeRecord entry;
  entry.kind = kind;
  entry.name = part.empty() || part == name ? std::string(name)
                                            : std::string(name) + "." + std::string(part);
  entry.micro_batch = micro_batch;
  entry.chunk = chunk;
  index_ = record_->open_scope(std::move(entry));
}

Cost StepRecord::total_cost() const {
  Cost sum;
  for (const auto& entry : ops_) sum += entry.cost;
  return sum;
}

StepRecord::Peak StepRecord::peak() const {
  std::vector<int64_t> changes(static_cast<size_t>(position_));  // by position
  for (const AllocationRecord& a : allocations_) {
    changes[static_cast<size_t>(a.allocated_at)] = a.bytes;
    if (a.released_at >= 0) changes[static_cast<size_t>(a.released_at)] = -a.bytes;
  }
  Peak peak;
  int64_t bytes = 0;
  for (size_t at = 0; at < changes.size(); ++at) {
    bytes += changes[at];
    if (bytes > peak.bytes) peak.bytes = bytes, peak.at = static_cast<int64_t>(at);
  }
  for (const auto& a : allocations_) {
    if (a.allocated_at <= peak.at && (a.released_at < 0 || a.released_at > peak.at))
      peak.bytes_by_tag[std::string(a.tag)] += a.bytes;
  }
  return peak;
}

}  // namespace viaduct
