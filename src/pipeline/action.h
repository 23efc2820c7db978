#pragma once
// The actions of a pipeline stage; a schedule is a list of them. A schedule is made by a pure
// function and checked, drawn and run independently of the model.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace viaduct {

enum class ActionKind {
  forward,
  backward,         // both halves, segment by segment: saved tensors are freed on the way
  backward_input,   // only d_in, which the previous stage waits for
  backward_weight,  // the weight gradients, at any later time
  post_send,        // these two return at once
  post_receive,
  wait,  // for a message posted earlier: it has arrived, or its buffer is free again
  pass,  // a chunk's output becomes another one's input on this rank (Message::peer)
};
std::string_view action_name(ActionKind kind);
/// True for actions that compute; false for those that move messages.
constexpr bool computes(ActionKind kind) {
  return kind <= ActionKind::backward_weight;
}

/// Segments [begin, end) of a chunk, in the order of the forward. A schedule need not know how many
/// there are: places at the end are counted from `kEnd`, so that {kEnd - 1, kEnd} is the last one.
struct SegmentRange {
  static constexpr int kEnd = std::numeric_limits<int>::max();

  int begin = 0, end = kEnd;

  bool is_whole() const { return begin == 0 && end == kEnd; }
  /// The same as indices from 0 to `segments`, the chunk's number of segments. CommError if it has
  /// no such segments, or the range is empty; all of a chunk without layers are.
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
  /// Chunk of this stage (its virtual stage: StageOrder). Of messages: the chunk here that produces
  /// or consumes it.
  int chunk = 0;
  SegmentRange segments = {};  // of computations
  Message message = {};        // of post_send, post_receive and wait
  /// Of a forward: the chunk whose first forward comes `stage` forwards later (chunk 0: the very
  /// first forward). Stages run one forward behind each other, so this is the same time on all of
  /// them; −1: none.
  int begins = -1;
  /// Of a forward: its segments alternate with those of the backward that follows, so that
  /// exchanges of the one are hidden under the other (pipeline/interleave_turns.h).
  bool combined = false;
  bool last_gradient = false;  // the last action of the chunk that adds to weight gradients
  /// Of a backward: the chunk whose weight gradients were complete `stage` backwards earlier.
  /// Backwards begin on the last stage and reach each stage before it one later, so this is the
  /// same time on all of them; −1: none. Chunks that complete too late have none.
  int reduces = -1;
};

using ActionList = std::vector<Action>;

/// "forward of micro-batch 3, chunk 0", "backward of micro-batch 3, chunk 0, segments 0 to end −
/// 1", "post_send of activations 2 to stage 1 (…)": for messages.
std::string describe(const Action& action);

}  // namespace viaduct
