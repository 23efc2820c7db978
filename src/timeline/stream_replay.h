#pragma once
// Gives the streams of an expanded record their work and waits, as the device would have counted
// them had the instances run: positions, and the edges between streams.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "timeline/action_log.h"
#include "timeline/instance_values.h"
#include "timeline/record.h"
#include "timeline/stream_clocks.h"

namespace viaduct {

/// Whether a wait is for everything that the other stream had been given by then. Otherwise it is
/// for the work after which its event was recorded: the call `from_calls - 1`, as of an operation,
/// whose event is recorded right after it and waited for later, even if nothing came in between.
bool waits_for_all(const std::vector<StreamCallRecord>& calls, int64_t index);

/// Whoever expands a record says which action comes next, and calls `until` before each event. A
/// wait that changed nothing where it was recorded may do so in an instance, and the other way
/// round, so each is decided anew, with the clocks that the device has.
class StreamReplay {
 public:
  /// `record` has its calls from the begin of the device on and outlives this object.
  explicit StreamReplay(const StepRecord& record);

  /// An instance begins, or ends; otherwise everything is the recorded program's.
  void enter(const ActionRecord& instance, const ActionRecord& recorded_as);
  void leave();
  /// Does the calls before the event at a position of the record.
  void until(int64_t position);
  /// Does the calls after the last event.
  void finish();

  /// The position that work at a position of a recorded stream has now. The work was given in the
  /// action that is going on.
  int64_t position(int stream, int64_t recorded) const;
  /// How much work a stream has been given.
  int64_t position_now(int stream) const;
  /// Those since the begin, in order.
  std::vector<StreamEdgeRecord> take_edges() { return std::move(edges_); }
  /// Why the record cannot be expanded, if it cannot: what was found so far.
  const std::optional<std::string>& against() const { return against_; }

 private:
  void call(int64_t index);
  void wait(int64_t index);
  /// The event that a call waits for.
  std::optional<Event> event_of(int64_t index);
  /// The micro-batch of the instance that is going on; −1: none.
  int64_t micro_batch() const { return instance_ == nullptr ? -1 : instance_->micro_batch; }
  void speak_against(int64_t index, const char* why);

  const std::vector<StreamCallRecord>& calls_;
  StreamClocks clocks_;
  std::vector<std::vector<int64_t>> taken_by_;  // by stream and position: the recorded call
  std::vector<bool> holds_;                     // by stream: its work holds memory
  std::vector<StreamEdgeRecord> edges_;
  /// By call: how many of those before it give a side stream work.
  std::vector<int64_t> side_calls_;
  InstanceValues<Event> events_;  // after each of these that a wait names
  std::vector<bool> waited_for_;  // by call: whether a wait names the event after it
  const ActionRecord* instance_ = nullptr;
  const ActionRecord* recorded_as_ = nullptr;
  int64_t next_ = 0;              // call of the recorded program
  std::vector<int64_t> placed_;   // by call of the recorded program: the position after it
  int64_t next_of_instance_ = 0;  // recorded call that the instance does next
  std::vector<int64_t> placed_of_instance_;  // by call since the begin of the action
  std::vector<int64_t> before_;              // a wait: how far compute was behind each stream
  std::optional<std::string> against_;
};

}  // namespace viaduct
