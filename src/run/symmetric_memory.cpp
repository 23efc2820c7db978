#include "run/symmetric_memory.h"

namespace viaduct {

std::string why_not_symmetric(const RunConfig& config) {
  if (config.dist.disable_symmetric_registration)
    return "ddp.disable_symmetric_registration = true";
  // A size that the plan has not foreseen can move later allocations of one rank alone.
  if (config.pipeline.variable_seq_lengths)
    return "model.variable_seq_lengths = true: sizes differ from step to step";
  if (config.context_parallel.hybrid_context_parallel)
    return "model.hybrid_context_parallel = true: each row is shared by other ranks";
  if (const std::string cause = cause_of_documents(config.dataset); !cause.empty())
    return cause + ": each row has other documents";
  const bool routes =
      config.model.moe.experts() > 0 &&
      config.parallel.expert_model_parallel_size * config.parallel.expert_tensor() > 1;
  if (routes && !config.model.moe.moe_pad_expert_input_to_capacity)
    return "experts over several ranks get other rows in each step "
           "(model.moe_pad_expert_input_to_capacity = false)";
  return "";
}

bool wants_symmetric_memory(const RunConfig& config) {
  return config.dist.nccl_ub && why_not_symmetric(config).empty();
}

}  // namespace viaduct
