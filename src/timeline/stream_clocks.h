#pragma once
// The order of work on streams: how much work each was given, and how far each has waited for the
// others.

#include <cstdint>
#include <memory>
#include <vector>

namespace viaduct {

/// A point in a stream's order; later work may wait for it.
struct Event {
  int stream = 0;
  int64_t position = 0;  // number of pieces of work given to the stream before it
  /// By stream, the position up to which this stream had waited for it at that time; null: for
  /// none.
  std::shared_ptr<const std::vector<int64_t>> behind = nullptr;
  /// How many calls were in the record when the event was recorded (StepRecord::stream_calls).
  int64_t calls = 0;
};

class StreamClocks {
 public:
  explicit StreamClocks(int count) : streams_(static_cast<size_t>(count)) {}

  /// One more stream; returns its number.
  int add();
  int count() const { return static_cast<int>(streams_.size()); }
  /// How much work a stream was given.
  int64_t position(int stream) const { return streams_.at(static_cast<size_t>(stream)).position; }
  /// Counts one more piece of work; returns its position, counted from 1.
  int64_t launched(int stream) { return ++streams_[static_cast<size_t>(stream)].position; }
  Event event(int stream);

  /// Whether all further work of `stream` is already ordered after `event`.
  bool is_behind(int stream, const Event& event) const;
  /// The position of `other` that all further work of `stream` is ordered after.
  int64_t behind(int stream, int other) const;
  /// Notes that `stream` waits for `event`.
  void waited(int stream, const Event& event);

 private:
  struct Stream {
    int64_t position = 0;
    std::vector<int64_t> behind;                         // by stream; shorter: 0
    std::shared_ptr<const std::vector<int64_t>> shared;  // a copy of `behind`, made on demand
  };
  std::vector<Stream> streams_;
};

}  // namespace viaduct
