#pragma once
// How the ranks of a context group attend to each other's tokens; selected per layer.

#include <string_view>

namespace viaduct {

/// p2p: keys and values travel around a ring. all_gather: every rank gets all of them. a2a: ranks
/// exchange their part of the sequence for a part of the heads. a2a_p2p: a2a inside runs of
/// contiguous ranks, a ring across the runs.
enum class ContextExchange { p2p, all_gather, a2a, a2a_p2p };

/// "p2p", "all_gather", "a2a", "a2a+p2p".
std::string_view context_exchange_name(ContextExchange exchange);
/// The exchange with this name; else a ConfigError that lists the names.
ContextExchange parse_context_exchange(std::string_view name);

}  // namespace viaduct
