#include "nn/context_parallel_config.h"

namespace viaduct {

ContextExchange ContextParallelConfig::exchange(int64_t layer) const {
  return parse_context_exchange(cp_comm_type.at(static_cast<size_t>(layer)));
}

FieldGroup context_parallel_fields(ContextParallelConfig& config) {
  FieldGroup group("model", "");
  group
      .field("cp_comm_type", config.cp_comm_type,
             "How key and value meet all queries: rings, gathers, exchange of sequence for heads, "
             "or both in two levels; one for all layers or a list of one per layer.")
      .one_of({"p2p", "all_gather", "a2a", "a2a+p2p"})
      .constraint(
          "list of num_layers; sliding windows need a2a or all_gather; a2a needs heads / tp and "
          "key-value heads / tp divisible by cp");
  group
      .field("hierarchical_context_parallel_sizes", config.hierarchical_context_parallel_sizes,
             "Sizes of the two levels of a2a+p2p, inner first.")
      .range(1)
      .constraint("their product is cp; required by a2a+p2p");
  return group;
}

}  // namespace viaduct
