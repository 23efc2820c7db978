#pragma once
// The order of work on a device's streams: the names of the streams, how much work each was given,
// and how far each has waited for the others. This decides when memory that a side stream uses may
// be freed: once compute is ordered after that use.

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"
#include "timeline/stream_clocks.h"

namespace viaduct {

/// The stream that layers run on. Memory is allocated and freed in its order.
inline constexpr int kComputeStream = 0;

class StreamOrder {
 public:
  StreamOrder() : clocks_(1), streams_(1) { streams_[kComputeStream].name = "compute"; }

  /// The number of the stream of this name; creates the stream at first use.
  int stream(std::string_view name);
  int count() const { return clocks_.count(); }
  const std::string& name(int stream) const {
    return streams_.at(static_cast<size_t>(stream)).name;
  }

  // As of StreamClocks.
  int64_t position(int stream) const { return clocks_.position(stream); }
  int64_t launched(int stream) { return clocks_.launched(stream); }
  Event event(int stream) { return clocks_.event(stream); }
  bool is_behind(int stream, const Event& event) const { return clocks_.is_behind(stream, event); }
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
    std::deque<Held> held = {};  // in ascending order; from the front they go
  };

  StreamClocks clocks_;
  std::vector<Stream> streams_;
};

}  // namespace viaduct
