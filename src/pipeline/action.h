#pragma once
// What a pipeline stage does, one entry after the other: schedules are lists of these. A schedule
// is made by a pure function, checked, drawn and run without knowing what a model is.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace viaduct {

enum class ActionKind {
  forward,
  backward,         // both halves at once, segment by segment: what they keep is freed on the way
  backward_input,   // d_in alone: what the stage before waits for
  backward_weight,  // the rest, at any later time
  post_send,        // these two return at once
  post_receive,
  wait,  // for a message posted before: it has arrived, or nobody reads it any more
};
std::string_view action_name(ActionKind kind);
/// True where the model runs; false for what moves messages.
constexpr bool computes(ActionKind kind) {
  return kind <= ActionKind::backward_weight;
}

/// Segments [begin, end) of a chunk, in the order of the forward. A schedule need not know how many
/// there are: places at the end are counted from `kEnd`, so that {kEnd - 1, kEnd} is the last one.
struct SegmentRange {
  static constexpr int kEnd = std::numeric_limits<int>::max();

  int begin = 0, end = kEnd;

  bool is_whole() const { return begin == 0 && end == kEnd; }
  /// The same in numbers from 0 to `segments`, how many the chunk has. CommError if it has no such
  /// segments, or the range is empty.
  SegmentRange among(int segments) const;
  bool operator==(const SegmentRange&) const = default;
};
/// The last segment of a chunk (where the chunk ends with the head: the head), and the others.
inline constexpr SegmentRange kLastSegment{SegmentRange::kEnd - 1, SegmentRange::kEnd};
inline constexpr SegmentRange kAllButLastSegment{0, SegmentRange::kEnd - 1};

/// A message between neighbouring stages: the n-th of its channel, which is first in, first out.
struct Message {
  bool outgoing = false;
  Flow flow = Flow::activations;
  int peer = -1;         // pipeline rank of the other end
  int64_t sequence = 0;  // from 0, in each direction and flow between the two
};

struct Action {
  ActionKind kind = ActionKind::forward;
  int64_t micro_batch = 0;
  /// Chunk of this stage: virtual stage chunk · pp + stage. Of messages, the chunk here that made
  /// or takes it.
  int chunk = 0;
  SegmentRange segments = {};  // of what computes
  Message message = {};        // of post_send, post_receive and wait
  /// Of a forward: the chunk whose first forward comes `stage` forwards later (chunk 0: the very
  /// first forward). Stages run one forward behind each other, so this is one time for all; −1:
  /// none.
  int begins = -1;
  bool last_gradient = false;  // after it no action of the chunk adds to weight gradients
  /// Of a backward: the chunk whose weight gradients were complete `stage` backwards earlier.
  /// Backwards begin on the last stage and reach each stage before it one later, so this is one
  /// time for all; −1: none. Chunks complete too late for that have none at all.
  int reduces = -1;
};

using ActionList = std::vector<Action>;

/// "forward of micro-batch 3, chunk 0", "backward of micro-batch 3, chunk 0, segments 0 to end −
/// 1", "post_send of activations 2 to stage 1 (…)": for messages.
std::string describe(const Action& action);

}  // namespace viaduct
