#pragma once
// The record of a step: what ran on which stream in which order, and which owner allocated what.
// Plain types only. Devices, ops and communicators append to it. On `cpu` and `cuda` it is a trace
// of the execution; on `sim` nothing but the record is made.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "timeline/rank_rule.h"
#include "timeline/step_counters.h"

namespace viaduct {

/// Formats that matrix and vector units count their operations in.
enum class FlopFormat : uint8_t { f64, f32, f16, bf16, fp8, fp4 };
inline constexpr int kFlopFormats = 6;

/// What an op costs, computed from its shapes.
struct Cost {
  std::array<double, kFlopFormats> flops{};  // by FlopFormat
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;

  double total_flops() const {
    double sum = 0;
    for (double f : flops) sum += f;
    return sum;
  }
  Cost& operator+=(const Cost& other);
};

/// One launched op.
struct OpEntryRecord {
  std::string op;      // "gemm", "norm_forward", …
  std::string kernel;  // the chosen kernel
  int stream = 0;
  int launches = 1;
  Cost cost;
  int64_t workspace_bytes = 0;
  double begin_seconds = 0, end_seconds = 0;  // wall clock of this process; equal on sim
  std::string shapes = {};                    // of the operands, if `with_shapes`
  int64_t at = 0;               // position in the sequence of all events of the record
  int64_t scope = -1;           // the innermost scope around it; −1: none
  int64_t stream_position = 0;  // its place among the stream's work
  /// On sim: the work of a captured graph, which the host launches once, as a whole.
  bool in_graph = false;
  int spare_multiprocessors = 0;  // that a product leaves to communication

  int host_launches() const { return in_graph ? 0 : launches; }
};

/// A dependency between streams: work of `to_stream` from `to_position` on begins after the work of
/// `from_stream` up to and including `from_position`.
struct StreamEdgeRecord {
  int from_stream = 0;
  int64_t from_position = 0;
  int to_stream = 0;
  int64_t to_position = 0;
};

/// A piece of work that a stream is given, or a wait of the stream for an event of another one.
struct StreamCallRecord {
  int stream = 0;
  int from_stream = -1;    // of the event that it waits for; −1: a piece of work
  int64_t at = 0;          // position of the record's next event
  int64_t position = 0;    // of the stream afterwards
  int64_t from_calls = 0;  // how many calls there were when the event was recorded
  /// False: it changed nothing, since the stream had waited for the event or a later one before. So
  /// it has no position and no edge.
  bool takes_position = true;
  bool in_graph = false;  // as of ops
};

/// One allocation; times are positions in the sequence of all events of the record.
struct AllocationRecord {
  int64_t id = 0;
  int64_t bytes = 0;
  std::string_view tag;  // a literal
  int64_t allocated_at = 0;
  int64_t released_at = -1;      // −1: still held when the record ended
  int64_t scope = -1;            // the innermost scope around it: its owner
  double allocated_seconds = 0;  // wall clock; 0 on sim
  double released_seconds = 0;
};

/// The release of an allocation made before the record was attached.
struct OlderReleaseRecord {
  int64_t bytes = 0;
  std::string_view tag;  // a literal
  int64_t at = 0;
  double seconds = 0;
};

/// The kinds of scopes: a whole step, one of its phases (the forward of a micro-batch, the
/// optimizer …), or a segment of a layer within a phase.
enum class ScopeKind : uint8_t { step, phase, segment };

/// A named interval of the host's program. Scopes nest.
struct ScopeRecord {
  ScopeKind kind = ScopeKind::step;
  std::string name;          // "forward", "blocks.3.mlp"
  int64_t parent = -1;       // index of the scope around it; −1: none
  int64_t micro_batch = -1;  // of phases of one micro-batch
  int chunk = -1;
  int64_t begin_at = 0, end_at = -1;  // positions; −1: open when the record ended
  double begin_seconds = 0, end_seconds = 0;
};

/// A collective or message of this rank. Positions are in the sequence of all events of the record,
/// so they show what ran between launch and completion. The records of all members have a group's
/// collective at the same `sequence`; a send from rank a to b matches b's receive from a with the
/// same group, flow and `sequence`.
struct CollectiveRecord {
  std::string operation;   // "all_reduce", "send", …
  std::string group;       // "tp", "dp.inner", …
  int ranks = 1;           // of the group
  int64_t bytes = 0;       // of the larger operand
  int64_t wire_bytes = 0;  // bytes that this rank hands to a network
  int peer = -1;           // a message's other end, a broadcast's root: rank of the run
  std::string flow = {};   // of messages: "activations" or "gradients"
  std::shared_ptr<const RankRule> members;  // ranks of the run that are the group
  int place = 0;                            // of this rank among them
  /// The number of earlier ones since the group was made, recorded or not: for a collective, of the
  /// group's collectives; for a message, of messages with the same other end, direction and flow.
  /// One that a captured graph does again has the number that it had when it was captured.
  int64_t sequence = 0;
  int64_t message_group = -1;  // messages with the same number begin together; −1: alone
  int multiprocessors = 0;     // that its kernels were told to take; 0: not told
  int64_t launched_at = 0;
  int64_t completed_at = -1;      // when the host waited for it; −1: not in this record
  double launch_seconds = 0;      // wall clock of this process
  double wait_begin_seconds = 0;  // when the host began to wait for it
  double complete_seconds = 0;    // when that wait ended; the difference is exposed time
  bool blocks_host = false;       // the host waited, not only a stream
  double busy_seconds = 0;        // in which data moved, if the backend knows
  int64_t scope = -1;             // the innermost scope around its launch
  std::string queue = {};         // operations of one queue begin one after the other
  int stream = 0;                 // of the device, if it has side streams
  int64_t stream_position = 0;    // its place among that stream's work
  int64_t counter = -1;           // its index in StepCounters::collectives; −1: not counted
};

/// A value that the host read from the device, with the reason given in the code. The host is
/// blocked until the compute stream has finished all earlier work.
struct HostReadRecord {
  std::string reason;
  int64_t at = 0;
  int64_t scope = -1;           // the innermost scope around it
  int64_t stream_position = 0;  // of the compute stream
};

/// An exchange of values between the hosts of a group's ranks. The host is blocked from `wait_at`
/// until all members have posted theirs. All members' records have the same call at the same
/// `sequence`.
struct HostCallRecord {
  std::string what;   // "figures", "first text", …
  std::string group;  // "world", …
  std::shared_ptr<const RankRule> members;
  int place = 0;         // of this rank among them
  int64_t sequence = 0;  // the number of earlier calls of the group, recorded or not
  int64_t bytes = 0;     // that this rank contributes
  int64_t posted_at = 0;
  int64_t wait_at = -1;           // when the host began to wait for it; −1: not in this record
  double post_seconds = 0;        // wall clock of this process; 0 on sim
  double wait_begin_seconds = 0;  // when the host began to wait for it
  double complete_seconds = 0;    // when it had the answer
  int64_t scope = -1;             // the innermost scope around the post
};

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
  int64_t position_ = 0;
  int64_t scope_ = -1;  // innermost open one
  ScopeMarks* marks_ = nullptr;
  int marked_ = 0;  // open scopes that `marks_` was told of
  std::vector<OpEntryRecord> ops_;
  std::vector<AllocationRecord> allocations_;
  std::map<int64_t, size_t> open_;  // id → index into allocations_
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
