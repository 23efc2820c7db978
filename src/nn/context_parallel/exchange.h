#pragma once
// How the ranks of a context group attend to each other's tokens; selected per layer.

#include <array>
#include <string_view>

#include "config/choice.h"

namespace viaduct {

/// p2p: keys and values travel around a ring. all_gather: every rank gets all of them. a2a: ranks
/// exchange their part of the sequence for a part of the heads. a2a_p2p: a2a inside runs of
/// contiguous ranks, a ring across the runs.
enum class ContextExchange { p2p, all_gather, a2a, a2a_p2p };

constexpr auto choice_names(ContextExchange) {
  return std::to_array<std::string_view>({"p2p", "all_gather", "a2a", "a2a+p2p"});
}

}  // namespace viaduct
