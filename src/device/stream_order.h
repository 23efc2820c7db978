#pragma once
// The order of work on a device's streams: the names of the streams, how much work each was given,
// and how far each has waited for the others. This decides when memory that a side stream uses may
// be freed: once compute is ordered after that use.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace viaduct {

/// The stream that layers run on. Memory is allocated and freed in its order.
inline constexpr int kComputeStream = 0;

/// A point in a stream's order; later work may wait for it.
struct Event {
  int stream = kComputeStream;
  int64_t position = 0;  // number of pieces of work given to the stream before it
  /// By stream, the position up to which this stream had waited for it at that time; null: for
  /// none.
  std::shared_ptr<const std::vector<int64_t>> behind;
};

class StreamOrder {
 public:
  StreamOrder() : streams_(1) { streams_[0].name = "compute"; }

  /// The number of the stream of this name; creates the stream at first use.
  int stream(std::string_view name);
  /// How much work it was given.
  int64_t position(int stream) const { return streams_.at(static_cast<size_t>(stream)).position; }
  int count() const { return static_cast<int>(streams_.size()); }
  const std::string& name(int stream) const {
    return streams_.at(static_cast<size_t>(stream)).name;
  }
  /// Counts one more piece of work; returns its position, counted from 1.
  int64_t launched(int stream) { return ++streams_[static_cast<size_t>(stream)].position; }
  Event event(int stream);

  /// Whether all further work of `stream` is already ordered after `event`.
  bool is_behind(int stream, const Event& event) const;
  /// Notes that `stream` waits for `event`. If it is compute, releases the tensors held for the
  /// work that compute is now ordered after.
  void waited(int stream, const Event& event);

  /// Keeps `tensor` until compute has waited for the last work of the side stream.
  void hold(int stream, const Tensor& tensor);
  void release_held();

 private:
  struct Held {
    int64_t position;
    Tensor tensor;
  };
  struct Stream {
    std::string name;
    int64_t position = 0;
    std::vector<int64_t> behind;                         // by stream; shorter: 0
    std::shared_ptr<const std::vector<int64_t>> shared;  // a copy of `behind`, made on demand
    std::vector<Held> held;                              // in ascending order
  };
  int64_t behind(int stream, int other) const;

  std::vector<Stream> streams_;
};

}  // namespace viaduct
