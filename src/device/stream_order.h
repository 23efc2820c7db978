#pragma once
// In which order a device's streams do what they were given: the names of the streams, how much
// each was given, and how far each has waited for the others. From it follows when memory that a
// side stream uses may go back: once compute is ordered behind that use.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace viaduct {

/// The stream that layers run on. Memory is taken and given back in its order.
inline constexpr int kComputeStream = 0;

/// A point in a stream's order; later work may wait for it.
struct Event {
  int stream = kComputeStream;
  int64_t position = 0;  // how much the stream was given before it
  /// By stream, the position up to which this stream had waited for it then; null: for none.
  std::shared_ptr<const std::vector<int64_t>> behind;
};

class StreamOrder {
 public:
  StreamOrder() : streams_(1) { streams_[0].name = "compute"; }

  /// The number of the stream of this name, which begins to exist.
  int stream(std::string_view name);
  const std::string& name(int stream) const {
    return streams_.at(static_cast<size_t>(stream)).name;
  }
  /// One piece of work more; its position, counted from 1.
  int64_t launched(int stream) { return ++streams_[static_cast<size_t>(stream)].position; }
  Event event(int stream);

  /// Whether all that `stream` is given from here comes after `event` anyway.
  bool is_behind(int stream, const Event& event) const;
  /// `stream` was made to wait for `event`. If it is compute, tensors held for what it now comes
  /// after are let go.
  void waited(int stream, const Event& event);

  /// Keeps `tensor` until compute has waited for what the side stream was given last.
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
    std::shared_ptr<const std::vector<int64_t>> shared;  // a copy of `behind`, made when asked for
    std::vector<Held> held;                              // in ascending order
  };
  int64_t behind(int stream, int other) const;

  std::vector<Stream> streams_;
};

}  // namespace viaduct
