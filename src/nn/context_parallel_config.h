#pragma once
// How context parallelism moves keys and values (section `model`; the degree is a size of the mesh,
// comm/dist_config.h).

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "config/one_or_list.h"

namespace viaduct {

/// p2p: keys and values go round a ring. all_gather: every rank gets all of them. a2a: ranks
/// exchange their part of the sequence for a part of the heads. a2a_p2p: that inside runs of
/// contiguous ranks, a ring across the runs.
enum class ContextExchange { p2p, all_gather, a2a, a2a_p2p };
/// "p2p", "all_gather", "a2a", "a2a+p2p".
std::string_view context_exchange_name(ContextExchange exchange);

struct ContextParallelConfig {
  /// One for all layers, or one for each.
  OneOrList<std::string> cp_comm_type = std::string("p2p");
  /// {inner (a2a), outer (ring)}; needed by a2a+p2p.
  std::optional<std::vector<int>> hierarchical_context_parallel_sizes;

  /// The way of a layer, by its global number. The configuration must be valid.
  ContextExchange exchange(int64_t layer) const;
};

FieldGroup context_parallel_fields(ContextParallelConfig& config);

}  // namespace viaduct
