#include "timeline/stream_clocks.h"

#include <algorithm>

namespace viaduct {

int StreamClocks::add() {
  streams_.emplace_back();
  return count() - 1;
}

Event StreamClocks::event(int stream) {
  Stream& from = streams_.at(static_cast<size_t>(stream));
  if (from.shared == nullptr && !from.behind.empty())
    from.shared = std::make_shared<const std::vector<int64_t>>(from.behind);
  return {stream, from.position, from.shared};
}

int64_t StreamClocks::behind(int stream, int other) const {
  const auto& list = streams_.at(static_cast<size_t>(stream)).behind;
  return static_cast<size_t>(other) < list.size() ? list[static_cast<size_t>(other)] : 0;
}

bool StreamClocks::is_behind(int stream, const Event& event) const {
  return event.stream == stream || behind(stream, event.stream) >= event.position;
}

void StreamClocks::waited(int stream, const Event& event) {
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
}

}  // namespace viaduct
