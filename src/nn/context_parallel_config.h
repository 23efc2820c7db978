#pragma once
// How context parallelism moves keys and values (section `model`; the degree is a size of the mesh,
// comm/dist_config.h).

#include <optional>
#include <vector>

#include "config/field.h"
#include "config/one_or_list.h"
#include "nn/context_parallel/exchange.h"

namespace viaduct {

struct ContextParallelConfig {
  /// One for all layers, or one for each.
  OneOrList<ContextExchange> cp_comm_type = ContextExchange::p2p;
  /// {inner (a2a), outer (ring)}; needed by a2a+p2p.
  std::optional<std::vector<int>> hierarchical_context_parallel_sizes;
  /// Each document is shared by as many data and context ranks as its length needs.
  bool hybrid_context_parallel = false;
  /// Maximum tokens of a micro-batch on a rank under hybrid_context_parallel.
  std::optional<int64_t> max_seqlen_per_dp_cp_rank;

  /// The exchange of a layer, by its global number. The configuration must be valid.
  ContextExchange exchange(int64_t layer) const;
};

FieldGroup context_parallel_fields(ContextParallelConfig& config);

}  // namespace viaduct
