#pragma once
// The record of a step: what ran on which stream in which order, and which owner allocated what.
// Devices, ops and communicators append to it. On `cpu` and `cuda` it is a trace of the execution;
// on `sim` nothing but the record is made.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "timeline/open_allocations.h"
#include "timeline/record_entries.h"
#include "timeline/step_counters.h"

namespace viaduct {

/// Interface that is told when scopes begin and end: an attached profiler.
class ScopeMarks {
 public:
  virtual ~ScopeMarks() = default;
  virtual void begin(const std::string& name) = 0;
  virtual void end() = 0;
};

/// The record that is attached to a device. Only the rank's host thread writes to it.
class StepRecord {
 public:
  /// From now on `op` and `allocate` throw DeadlineError once `deadline` has passed: whoever makes
  /// a record that nothing executes asks for the time inside everything that takes it.
  void give_up_at(const Deadline& deadline) { deadline_ = deadline; }
  void op(OpEntryRecord entry);
  /// `tag` is a literal: the record keeps the view.
  void allocate(int64_t id, int64_t bytes, std::string_view tag);
  void release(int64_t id, int64_t bytes, std::string_view tag);
  void host_read(std::string reason, int64_t stream_position = 0);
  /// A collective begins; returns its number. `complete`: the host has waited for it, or has made a
  /// stream wait for it.
  int64_t launch(CollectiveRecord entry);
  void complete(int64_t number, double wait_begin_seconds, double complete_seconds,
                double busy_seconds, bool blocks_host = false);
  /// A host call is posted; returns its number, or −1 if only counters are kept. `host_call_done`:
  /// its answer has arrived.
  int64_t host_call(HostCallRecord entry);
  void host_call_done(int64_t number, double wait_begin_seconds);
  void edge(const StreamEdgeRecord& entry) { edges_.push_back(entry); }
  /// Kept if `with_stream_calls`; `at` and `in_graph` are filled in.
  void stream_call(StreamCallRecord entry) {
    if (!with_stream_calls_) return;
    entry.at = position_;
    entry.in_graph = in_graph_;
    stream_calls_.push_back(entry);
  }
  /// A scope begins inside those that are open (`RecordScope` calls these); returns its index.
  int64_t open_scope(ScopeRecord entry);
  void close_scope(int64_t index);

  /// So many entries more.
  struct Room {
    size_t ops = 0, allocations = 0, collectives = 0, scopes = 0;
  };
  /// Makes room for them, so that no list moves while they are added.
  void reserve(const Room& room);

  /// From now on `marks` is told of scopes, also of those that are not kept; null: none, and the
  /// open scopes that it was told of end here. Not owned.
  void set_marks(ScopeMarks* marks);

  /// Keeps only sums, no entries, so that the record's size does not grow with the step.
  void keep_counters_alone() { counters_alone_ = true; }
  /// Sums since `reset_counters`, of timed records. Communication is counted when it is waited for.
  const StepCounters& counters() const { return counters_; }
  void reset_counters();

  /// Ops from here on are the work of a graph that was launched.
  void set_in_graph(bool in_graph) { in_graph_ = in_graph; }
  /// Whether ops describe the shapes of their operands, which takes time.
  void set_with_shapes(bool with_shapes) { with_shapes_ = with_shapes; }
  bool with_shapes() const { return with_shapes_; }
  /// Whether what streams are given is kept, which an expansion of the record needs
  /// (timeline/record_expansion.h).
  void set_with_stream_calls(bool with_stream_calls) { with_stream_calls_ = with_stream_calls; }
  bool with_stream_calls() const { return with_stream_calls_; }
  /// Whether calls of libraries are kept, each of them once.
  void set_with_library_calls(bool with_calls) { with_library_calls_ = with_calls; }
  bool with_library_calls() const { return with_library_calls_; }
  /// `call`: bytes that the backend which made them understands; "" is not kept.
  void library_call(std::string call) {
    if (!call.empty()) library_calls_.insert(std::move(call));
  }
  const std::set<std::string>& library_calls() const { return library_calls_; }
  /// Set by the device: false if it executes nothing, so that times are meaningless.
  void set_timed(bool timed) { timed_ = timed; }
  /// Drops all entries but the live allocations and the scopes that they were made in.
  void drop_finished();

  const std::vector<OpEntryRecord>& ops() const { return ops_; }
  const std::vector<AllocationRecord>& allocations() const { return allocations_; }
  const std::vector<HostReadRecord>& host_reads() const { return host_reads_; }
  const std::vector<HostCallRecord>& host_calls() const { return host_calls_; }
  const std::vector<CollectiveRecord>& collectives() const { return collectives_; }
  /// Empty if the device has no side streams: then everything runs in the order of the record.
  const std::vector<StreamEdgeRecord>& edges() const { return edges_; }
  /// In the order of the program; empty unless `with_stream_calls`.
  const std::vector<StreamCallRecord>& stream_calls() const { return stream_calls_; }
  const std::vector<ScopeRecord>& scopes() const { return scopes_; }
  const std::vector<OlderReleaseRecord>& older_releases() const { return older_releases_; }
  /// Names of a scope and those around it, outermost first: "step 3/forward/blocks.1.mlp".
  std::string scope_path(int64_t scope) const;
  /// Position of the next event.
  int64_t position() const { return position_; }
  Cost total_cost() const;

  /// The largest number of bytes held at once, and the bytes of each tag at that moment.
  struct Peak {
    int64_t bytes = 0;
    int64_t at = -1;  // position of the allocation that reached it
    std::map<std::string, int64_t> bytes_by_tag;
  };
  Peak peak() const;

 private:
  double now() const;
  int64_t count_collective(const CollectiveRecord& entry);

  bool counters_alone_ = false;
  StepCounters counters_;
  bool with_shapes_ = false, with_stream_calls_ = false, timed_ = true, in_graph_ = false;
  bool with_library_calls_ = false;
  std::set<std::string> library_calls_;
  int64_t position_ = 0;
  int64_t scope_ = -1;  // innermost open one
  ScopeMarks* marks_ = nullptr;
  int marked_ = 0;  // open scopes that `marks_` was told of
  Deadline deadline_;
  std::vector<OpEntryRecord> ops_;
  std::vector<AllocationRecord> allocations_;
  OpenAllocations open_;
  std::vector<HostReadRecord> host_reads_;
  std::vector<HostCallRecord> host_calls_;
  std::vector<CollectiveRecord> collectives_;
  int64_t dropped_calls_ = 0, dropped_collectives_ = 0;  // numbers before the first entries
  std::vector<StreamEdgeRecord> edges_;
  std::vector<StreamCallRecord> stream_calls_;
  std::vector<ScopeRecord> scopes_;
  std::vector<OlderReleaseRecord> older_releases_;
};

/// Opens a scope in the record for its own lifetime. Costs nothing without a record.
class RecordScope {
 public:
  /// The name is `name`, or "name.part". `record` may be null and outlives the scope.
  RecordScope(StepRecord* record, ScopeKind kind, std::string_view name, std::string_view part = {},
              int64_t micro_batch = -1, int chunk = -1);
  ~RecordScope() {
    if (record_ != nullptr) record_->close_scope(index_);
  }
  RecordScope(const RecordScope&) = delete;
  RecordScope& operator=(const RecordScope&) = delete;

 private:
  StepRecord* record_;
  int64_t index_ = -1;
};

}  // namespace viaduct
