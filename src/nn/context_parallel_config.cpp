#include "nn/context_parallel_config.h"

namespace viaduct {

ContextExchange ContextParallelConfig::exchange(int64_t layer) const {
  return cp_comm_type.at(static_cast<size_t>(layer));
}

FieldGroup context_parallel_fields(ContextParallelConfig& config) {
  FieldGroup group("model", "");
  group.on_resume(resume::free);
  group
      .field(
          "cp_comm_type", config.cp_comm_type,
          "How queries reach all keys and values: rings, gathers, exchange of sequence for heads, "
          "or both in two levels; one for all layers or a list of one per layer.")
      .constraint(
          "list of num_layers; sliding windows need a2a or all_gather; a2a needs heads / tp and "
          "key-value heads / tp divisible by cp");
  group
      .field("hierarchical_context_parallel_sizes", config.hierarchical_context_parallel_sizes,
             "Sizes of the two levels of a2a+p2p, inner first.")
      .range(1)
      .constraint("their product is cp; required by a2a+p2p");
  group
      .field(
          "hybrid_context_parallel", config.hybrid_context_parallel,
          "In training each document is shared by as many data and context ranks as its length "
          "needs, a power of two: long ones by many, short ones by one, balanced by their FLOPs.")
      .constraint(
          "pp 1, per-token loss, dp · cp a power of two, cp_comm_type p2p or all_gather, "
          "max_seqlen_per_dp_cp_rank");
  group
      .field("max_seqlen_per_dp_cp_rank", config.max_seqlen_per_dp_cp_rank,
             "Maximum tokens of a micro-batch on a rank under hybrid_context_parallel.")
      .range(1)
      .constraint("times dp · cp at least seq_length")
      .idle([&config] { return !config.hybrid_context_parallel; },
            "model.hybrid_context_parallel = false");
  return group;
}

}  // namespace viaduct
