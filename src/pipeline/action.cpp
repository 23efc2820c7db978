#include "pipeline/action.h"

#include <fmt/format.h>

#include "base/error.h"

namespace viaduct {
namespace {

/// Places above it are counted from the end.
constexpr int kMiddle = SegmentRange::kEnd / 2;

std::string place_name(int place) {
  if (place == SegmentRange::kEnd) return "end";
  return place > kMiddle ? fmt::format("end − {}", SegmentRange::kEnd - place)
                         : std::to_string(place);
}

}  // namespace

SegmentRange SegmentRange::among(int segments) const {
  const auto number = [&](int place) {
    return place > kMiddle ? segments - (kEnd - place) : place;
  };
  const SegmentRange range{number(begin), number(end)};
  // A chunk without layers hands on what it gets.
  const bool nothing = segments == 0 && range.begin == 0 && range.end == 0;
  VIADUCT_CHECK(CommError,
                nothing || (0 <= range.begin && range.begin < range.end && range.end <= segments),
                "pipeline: a chunk of {} segments has no segments {} to {}", segments,
                place_name(begin), place_name(end));
  return range;
}

std::string_view action_name(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return "forward";
    case ActionKind::backward:
      return "backward";
    case ActionKind::backward_input:
      return "backward_input";
    case ActionKind::backward_weight:
      return "backward_weight";
    case ActionKind::post_send:
      return "post_send";
    case ActionKind::post_receive:
      return "post_receive";
    case ActionKind::wait:
      return "wait";
    case ActionKind::pass:
      return "pass";
  }
  return "?";
}

std::string describe(const Action& action) {
  const std::string what =
      fmt::format("micro-batch {}, chunk {}", action.micro_batch, action.chunk);
  if (computes(action.kind)) {
    const SegmentRange& range = action.segments;
    return fmt::format(
        "{} of {}{}", action_name(action.kind), what,
        range.is_whole()
            ? ""
            : fmt::format(", segments {} to {}", place_name(range.begin), place_name(range.end)));
  }
  const Message& m = action.message;
  return fmt::format("{} of {} {} {} stage {} ({})", action_name(action.kind),
                     m.flow == Flow::activations ? "activations" : "gradients", m.sequence,
                     m.outgoing ? "to" : "from", m.peer, what);
}

}  // namespace viaduct
