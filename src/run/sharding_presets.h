#pragma once
// Fields that stand for others: they set fields that the user did not give, and a note lists what
// they set.

#include "run/run_config.h"

namespace viaduct {

/// Applies the presets of sharding and of its formats: dist.fsdp, use_megatron_fsdp and
/// use_torch_fsdp2, model.tensor_parallel_num_weight_shards, ddp.megatron_fsdp_main_params_dtype
/// and megatron_fsdp_main_grads_dtype, ddp.grad_reduce_in_bf16; and switches the distributed
/// optimizer off where the strategy is no_shard. Given fields stay: `validate` reports
/// contradictions.
void apply_sharding_presets(RunConfig& config, ConfigOutcome& outcome);

/// Ranks that share the weights of a tensor-parallel rank under
/// model.tensor_parallel_num_weight_shards; 0 if it is null, or not a multiple of
/// tensor_model_parallel_size, or if this number does not divide data-parallel ranks ·
/// context_parallel_size.
int64_t weight_shard_ranks(const RunConfig& config);

}  // namespace viaduct
