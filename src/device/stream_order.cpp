#include "device/stream_order.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace viaduct {

int StreamOrder::stream(std::string_view name) {
  const auto found = std::find_if(streams_.begin(), streams_.end(),
                                  [&](const Stream& stream) { return stream.name == name; });
  if (found != streams_.end()) return static_cast<int>(found - streams_.begin());
  streams_.emplace_back().name = name;
  return static_cast<int>(streams_.size()) - 1;
}

Event StreamOrder::event(int stream) {
  Stream& from = streams_.at(static_cast<size_t>(stream));
  if (from.shared == nullptr && !from.behind.empty())
    from.shared = std::make_shared<const std::vector<int64_t>>(from.behind);
  return {stream, from.position, from.shared};
}

int64_t StreamOrder::behind(int stream, int other) const {
  const auto& list = streams_.at(static_cast<size_t>(stream)).behind;
  return static_cast<size_t>(other) < list.size() ? list[static_cast<size_t>(other)] : 0;
}

bool StreamOrder::is_behind(int stream, const Event& event) const {
  return event.stream == stream || behind(stream, event.stream) >= event.position;
}

void StreamOrder::waited(int stream, const Event& event) {
  Stream& to = streams_.at(static_cast<size_t>(stream));
  const auto raise = [&](size_t other, int64_t position) {
    if (other == static_cast<size_t>(stream)) return;
    if (to.behind.size() <= other) to.behind.resize(other + 1);
    to.behind[other] = std::max(to.behind[other], position);
  };
  raise(static_cast<size_t>(event.stream), event.position);
  // Everything that the other stream had waited for is done as well.
  if (event.behind != nullptr)
    for (size_t other = 0; other < event.behind->size(); ++other)
      raise(other, (*event.behind)[other]);
  to.shared = nullptr;
  if (stream != kComputeStream) return;

  std::vector<Held> done;  // its destructors may call back into this object
  for (size_t other = 0; other < to.behind.size(); ++other) {
    std::vector<Held>& held = streams_[other].held;
    auto end = held.begin();
    while (end != held.end() && end->position <= to.behind[other]) ++end;
    std::move(held.begin(), end, std::back_inserter(done));
    held.erase(held.begin(), end);
  }
}

void StreamOrder::hold(int stream, const Tensor& tensor) {
  Stream& by = streams_.at(static_cast<size_t>(stream));
  by.held.push_back({by.position, tensor});
}

void StreamOrder::release_held() {
  for (Stream& stream : streams_) std::exchange(stream.held, {}).clear();
}

}  // namespace viaduct
