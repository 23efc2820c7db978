#pragma once
// The operations of communicators (comm/communicator.h), which runs execute and records name.

#include "config/choice.h"

namespace viaduct {

enum class Collective {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  send,
  receive,
  barrier,
};
constexpr auto choice_names(Collective) {
  return std::to_array<std::string_view>({"all_reduce", "all_gather", "reduce_scatter",
                                          "all_to_all", "broadcast", "send", "receive", "barrier"});
}

/// Messages between two ranks; the others are of all ranks of a group.
constexpr bool is_message(Collective collective) {
  return collective == Collective::send || collective == Collective::receive;
}

/// Channels of messages between two ranks; each delivers in the order of sending.
enum class Flow { activations, gradients };
constexpr auto choice_names(Flow) {
  return std::to_array<std::string_view>({"activations", "gradients"});
}

}  // namespace viaduct
