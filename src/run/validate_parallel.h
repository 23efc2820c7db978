#pragma once
// Rules over the sizes of the mesh, model and batch, and over the knobs of each axis. Each names
// the two numbers and the nearest valid choice. Values that are still `auto` are left out: the
// rules are evaluated again when all are resolved.

#include "config/problems.h"
#include "run/run_config.h"

namespace viaduct {

/// All rules, for each axis that applies.
void validate_parallel(const RunConfig& config, const ConfigOutcome& outcome, Problems& problems);

// One file an axis.
void validate_tensor_parallel(const RunConfig& config, const ConfigOutcome& outcome,
                              Problems& problems);
void validate_context_parallel(const RunConfig& config, Problems& problems);
/// Documents that share different numbers of ranks.
void validate_hybrid_context(const RunConfig& config, Problems& problems);
void validate_pipeline_parallel(const RunConfig& config, Problems& problems);
void validate_data_parallel(const RunConfig& config, Problems& problems);
/// What data-parallel ranks keep shards of, and in which formats.
void validate_full_sharding(const RunConfig& config, Problems& problems);
void validate_experts(const RunConfig& config, Problems& problems);
/// Exchanges of experts' rows during the compute of another micro-batch.
void validate_expert_overlap(const RunConfig& config, Problems& problems);
/// Multi-token prediction.
void validate_multi_token(const RunConfig& config, Problems& problems);
/// Fused operations, and what needs them.
void validate_fusions(const RunConfig& config, Problems& problems);
/// Recomputation in the backward.
void validate_recompute(const RunConfig& config, Problems& problems);
/// Offloading between forward and backward.
void validate_offload(const RunConfig& config, Problems& problems);

/// What attention by cuDNN needs.
void validate_attention_backend(const RunConfig& config, Problems& problems);

/// What carries tensors between GPUs.
void validate_transport(const RunConfig& config, Problems& problems);

/// What a run in virtual time runs on.
void validate_simulation(const RunConfig& config, Problems& problems);

}  // namespace viaduct
