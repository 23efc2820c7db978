#include "device/stream_order.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace viaduct {

int StreamOrder::stream(std::string_view name) {
  const auto found = std::find_if(streams_.begin(), streams_.end(),
                                  [&](const Stream& stream) { return stream.name == name; });
  if (found != streams_.end()) return static_cast<int>(found - streams_.begin());
  streams_.push_back({std::string(name)});
  return clocks_.add();
}

void StreamOrder::waited(int stream, const Event& event) {
  clocks_.waited(stream, event);
  if (stream != kComputeStream) return;

  std::vector<Held> done;  // its destructors may call back into this object
  for (int other = 0; other < count(); ++other) {
    std::deque<Held>& held = streams_[static_cast<size_t>(other)].held;
    const int64_t behind = clocks_.behind(stream, other);
    auto end = held.begin();
    while (end != held.end() && end->position <= behind) ++end;
    std::move(held.begin(), end, std::back_inserter(done));
    held.erase(held.begin(), end);
  }
}

void StreamOrder::hold(int stream, const Tensor& tensor) {
  streams_.at(static_cast<size_t>(stream)).held.push_back({position(stream), tensor});
}

void StreamOrder::release_held() {
  for (Stream& stream : streams_) std::exchange(stream.held, {}).clear();
}

}  // namespace viaduct
