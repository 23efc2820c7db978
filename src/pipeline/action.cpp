#include "pipeline/action.h"

#include <fmt/format.h>

namespace viaduct {

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
    case ActionKind::backward_but_head:
      return "backward_but_head";
    case ActionKind::head_weight:
      return "head_weight";
    case ActionKind::post_send:
      return "post_send";
    case ActionKind::post_receive:
      return "post_receive";
    case ActionKind::wait:
      return "wait";
  }
  return "?";
}

std::string describe(const Action& action) {
  const std::string what =
      fmt::format("micro-batch {}, chunk {}", action.micro_batch, action.chunk);
  if (computes(action.kind)) return fmt::format("{} of {}", action_name(action.kind), what);
  const Message& m = action.message;
  return fmt::format("{} of {} {} {} stage {} ({})", action_name(action.kind),
                     m.flow == Flow::activations ? "activations" : "gradients", m.sequence,
                     m.outgoing ? "to" : "from", m.peer, what);
}

}  // namespace viaduct
