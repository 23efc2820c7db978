#include "timeline/stream_replay.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace viaduct {
namespace {

/// Streams besides compute whose work holds memory until compute has waited for it: ops, and waits
/// for operations of other streams. Operations are waited for by name, and hold their own.
std::vector<bool> holding_streams(const StepRecord& record, size_t streams) {
  std::vector<bool> holds(streams, false);
  for (const OpEntryRecord& op : record.ops()) holds[static_cast<size_t>(op.stream)] = true;
  const auto& calls = record.stream_calls();
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].from_stream >= 0 && !waits_for_all(calls, static_cast<int64_t>(i)))
      holds[static_cast<size_t>(calls[i].stream)] = true;
  }
  holds.front() = false;
  return holds;
}

bool gives_side_stream_work(const StreamCallRecord& call) {
  return call.from_stream < 0 && call.stream != 0;
}

}  // namespace

bool waits_for_all(const std::vector<StreamCallRecord>& calls, int64_t index) {
  const StreamCallRecord& wait = calls[static_cast<size_t>(index)];
  if (wait.from_calls != index) return false;
  return wait.from_stream == 0 || index == 0 ||
         calls[static_cast<size_t>(index) - 1].stream != wait.from_stream;
}

StreamReplay::StreamReplay(const StepRecord& record) : calls_(record.stream_calls()), clocks_(1) {
  for (const StreamCallRecord& call : calls_) {
    while (clocks_.count() <= std::max(call.stream, call.from_stream)) clocks_.add();
  }
  taken_by_.resize(static_cast<size_t>(clocks_.count()));
  for (size_t i = 0; i < calls_.size(); ++i) {
    std::vector<int64_t>& taken = taken_by_[static_cast<size_t>(calls_[i].stream)];
    if (calls_[i].takes_position) taken.push_back(static_cast<int64_t>(i));
    VIADUCT_CHECK(Error, calls_[i].position == static_cast<int64_t>(taken.size()),
                  "expanding a record: expected all calls of stream {} from the first one on, call "
                  "{} is at {}, not {}",
                  calls_[i].stream, i, calls_[i].position, taken.size());
  }
  side_calls_.push_back(0);
  for (const StreamCallRecord& call : calls_)
    side_calls_.push_back(side_calls_.back() + gives_side_stream_work(call));
  events_.begin(-1, 0);
  waited_for_.resize(calls_.size());
  for (size_t i = 0; i < calls_.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    if (calls_[i].from_stream >= 0 && calls_[i].from_calls > 0 && !waits_for_all(calls_, index))
      waited_for_[static_cast<size_t>(calls_[i].from_calls) - 1] = true;
  }
  holds_ = holding_streams(record, taken_by_.size());
  placed_.reserve(calls_.size());
}

void StreamReplay::enter(const ActionRecord& instance, const ActionRecord& recorded_as) {
  while (next_ < instance.calls_begin) call(next_);
  instance_ = &instance, recorded_as_ = &recorded_as;
  next_of_instance_ = recorded_as.calls_begin;
  events_.begin(instance.micro_batch, side_calls_[static_cast<size_t>(recorded_as.calls_begin)]);
  placed_of_instance_.clear();
  // Streams are numbered in the order of their first work.
  if (instance.calls_begin < recorded_as.calls_end)
    speak_against(recorded_as.calls_begin, "an instance comes before what stands for it");
}

void StreamReplay::leave() {
  while (next_of_instance_ < recorded_as_->calls_end) call(next_of_instance_);
  instance_ = recorded_as_ = nullptr;
}

void StreamReplay::until(int64_t position) {
  int64_t& next = instance_ == nullptr ? next_ : next_of_instance_;
  const int64_t end =
      instance_ == nullptr ? static_cast<int64_t>(calls_.size()) : recorded_as_->calls_end;
  while (next < end && calls_[static_cast<size_t>(next)].at <= position) call(next);
}

void StreamReplay::finish() {
  while (next_ < static_cast<int64_t>(calls_.size())) call(next_);
}

int64_t StreamReplay::position(int stream, int64_t recorded) const {
  if (recorded <= 0) return recorded;
  const int64_t by = taken_by_[static_cast<size_t>(stream)][static_cast<size_t>(recorded) - 1];
  if (instance_ == nullptr) return placed_[static_cast<size_t>(by)];
  if (by < recorded_as_->calls_begin) return position_now(stream);  // nothing was given yet
  return placed_of_instance_[static_cast<size_t>(by - recorded_as_->calls_begin)];
}

int64_t StreamReplay::position_now(int stream) const {
  return clocks_.position(stream);
}

void StreamReplay::call(int64_t index) {
  const StreamCallRecord& call = calls_[static_cast<size_t>(index)];
  if (call.from_stream >= 0) {
    wait(index);
  } else {
    clocks_.launched(call.stream);
    if (waited_for_[static_cast<size_t>(index)] && gives_side_stream_work(call))
      events_.at(micro_batch(), side_calls_[static_cast<size_t>(index)]) =
          clocks_.event(call.stream);
    if (instance_ != nullptr && holds_[static_cast<size_t>(call.stream)])
      speak_against(index, "work that holds memory until compute waits for it");
  }
  const int64_t position = clocks_.position(call.stream);
  if (instance_ == nullptr) {
    placed_.push_back(position), ++next_;
  } else {
    placed_of_instance_.push_back(position), ++next_of_instance_;
  }
}

void StreamReplay::wait(int64_t index) {
  const StreamCallRecord& call = calls_[static_cast<size_t>(index)];
  const std::optional<Event> event = event_of(index);
  if (!event) return speak_against(index, "a wait for work outside of the micro-batch");
  const bool behind = clocks_.is_behind(call.stream, *event);
  // A wait ends a part of a group of launches.
  if (call.in_graph && behind == call.takes_position)
    speak_against(index, "a wait inside a graph that an instance has and the record not, or not");
  if (behind) return;
  edges_.push_back({event->stream, event->position, call.stream, clocks_.launched(call.stream)});
  const bool frees = instance_ != nullptr && call.stream == 0;
  before_.clear();
  for (int stream = 0; frees && stream < clocks_.count(); ++stream)
    before_.push_back(clocks_.behind(0, stream));
  clocks_.waited(call.stream, *event);
  for (size_t stream = 0; stream < before_.size(); ++stream) {
    if (holds_[stream] && clocks_.behind(0, static_cast<int>(stream)) != before_[stream])
      speak_against(index, "a wait that frees memory of others");
  }
}

std::optional<Event> StreamReplay::event_of(int64_t index) {
  const StreamCallRecord& wait = calls_[static_cast<size_t>(index)];
  if (waits_for_all(calls_, index)) return clocks_.event(wait.from_stream);
  if (wait.from_calls == 0) return Event{.stream = wait.from_stream};  // for nothing
  // The event was recorded right after the call before it.
  const auto after = static_cast<size_t>(wait.from_calls) - 1;
  if (!gives_side_stream_work(calls_[after])) return std::nullopt;
  const Event* const found = events_.find(micro_batch(), side_calls_[after]);
  if (found == nullptr || found->stream != wait.from_stream) return std::nullopt;
  return *found;
}

void StreamReplay::speak_against(int64_t index, const char* why) {
  if (!against_) against_ = fmt::format("call {} of streams: {}", index, why);
}

}  // namespace viaduct
