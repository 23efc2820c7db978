#pragma once
// The entries of a record: plain types.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "timeline/collective.h"
#include "timeline/rank_rule.h"

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
  // Literals: the record keeps the views.
  std::string_view op;      // "gemm", "norm_forward", …
  std::string_view kernel;  // the chosen kernel
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
  Collective operation = Collective::barrier;
  std::string group;              // "tp", "dp.inner", …
  int ranks = 1;                  // of the group
  int64_t bytes = 0;              // of the larger operand
  int64_t wire_bytes = 0;         // bytes that this rank hands to a network
  int peer = -1;                  // a message's other end, a broadcast's root: rank of the run
  std::optional<Flow> flow = {};  // of messages
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

}  // namespace viaduct
