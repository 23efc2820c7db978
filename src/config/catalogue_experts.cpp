// Planned knobs of mixture-of-experts layers and multi-token prediction.

#include "config/catalogue.h"

namespace viaduct::catalogue_tables {
namespace {

constexpr KnobReach kCuda = KnobReach::cuda_only;

constexpr KnobRow kRouting[] = {
    {"num_moe_experts", "int or null", "null", "", "Experts of a routed layer; null: dense.",
     "divisible by ep"},
    {"moe_ffn_hidden_size", "int or null", "null", "", "Width of an expert; null: ffn_hidden_size.",
     ""},
    {"moe_layer_freq", "int or list of int", "1", "",
     "Which layers are routed: one in n, or a list of 0 and 1.", "list of num_layers"},
    {"moe_router_topk", "int", "2", "", "Experts of a token.", "at most num_moe_experts"},
    {"moe_router_score_function", "string", "softmax", "softmax sigmoid sqrtsoftplus",
     "Scores from router logits.", ""},
    {"moe_router_pre_softmax", "bool", "false", "",
     "Softmax before the choice of experts, not after.", "required by softmax with topk = 1"},
    {"moe_router_topk_scaling_factor", "number or null", "null", "", "Factor on the chosen scores.",
     ""},
    {"moe_router_dtype", "string or null", "null", "fp32 fp64",
     "Format of the router's GEMM and scores.", ""},
    {"moe_router_num_groups", "int or null", "null", "",
     "Groups of experts for group-limited routing.", "divides num_moe_experts"},
    {"moe_router_group_topk", "int or null", "null", "", "Groups that a token may use.",
     "needs moe_router_num_groups"},
    {"moe_router_enable_expert_bias", "bool", "false", "",
     "A bias per expert, moved once a step towards equal load, decides the choice but not the "
     "weight.",
     "sigmoid or sqrtsoftplus scores"},
    {"moe_router_bias_update_rate", "number", "0.001", "", "Step of that bias.", ""},
    {"moe_router_load_balancing_type", "string or list of string", "aux_loss",
     "aux_loss seq_aux_loss global_aux_loss sinkhorn quantile_balancing none",
     "Load-balancing method; a list combines several.", ""},
    {"moe_aux_loss_coeff", "number or list of number", "0.0", "",
     "Weight of the load-balancing loss.", "one per balancing type"},
    {"moe_z_loss_coeff", "number or null", "null", "",
     "Weight of the mean squared log-sum-exp of router logits.", ""},
    {"moe_input_jitter_eps", "number or null", "null", "",
     "Router inputs are multiplied by uniform noise in [1 - e, 1 + e].", ""},
    {"moe_router_force_load_balancing", "bool", "false", "",
     "Random even routing, for benchmarks only.", ""},
    {"moe_router_padding_for_quantization", "bool", "false", "",
     "Routing pads the rows per expert to a multiple of 16 (MXFP8: 32).", "not with allgather"},
};

constexpr KnobRow kExperts[] = {
    {"moe_token_dispatcher_type", "string", "allgather", "allgather alltoall flex",
     "How tokens reach their experts.", ""},
    {"moe_expert_capacity_factor", "number or null", "null", "",
     "Most tokens of an expert, as a multiple of an equal share; null: all.", ""},
    {"moe_token_drop_policy", "string", "probs", "probs position",
     "Which tokens stay when an expert is full.", ""},
    {"moe_pad_expert_input_to_capacity", "bool", "false", "",
     "Expert inputs are padded to their capacity.", "needs moe_expert_capacity_factor"},
    {"moe_expert_rank_capacity_factor", "number or null", "null", "",
     "Capacity per rank instead of per expert.", "flex backends"},
    {"moe_grouped_gemm", "bool", "false", "", "One GEMM with variable rows for all local experts.",
     ""},
    {"moe_permute_fusion", "bool", "false", "", "Sorting and padding of tokens in one kernel.", ""},
    {"moe_router_fusion", "bool", "false", "",
     "Choice of experts and balancing loss in one kernel.", ""},
    {"moe_shared_expert_intermediate_size", "int or null", "null", "",
     "Width of the expert that every token uses; null: none.", ""},
    {"moe_shared_expert_gate", "bool", "false", "", "The shared expert is weighted by a gate.", ""},
    {"moe_shared_expert_overlap", "bool", "false", "",
     "The shared expert runs during the exchange.",
     "alltoall or flex; not with overlap_moe_expert_parallel_comm"},
    {"moe_dispatch_fwd_dtype", "string or null", "null", "mxfp8",
     "Format of tokens on the wire, forward.", ""},
    {"moe_combine_bwd_dtype", "string or null", "null", "mxfp8",
     "Format of gradients on the wire, backward.", ""},
    {"mtp_num_layers", "int or null", "null", "", "Layers of multi-token prediction.", ""},
};

constexpr KnobRow kGpu[] = {
    {"moe_flex_dispatcher_backend", "string or null", "null", "deepep hybridep ncclep",
     "Kernels of the flex dispatcher: deepep for 8-GPU domains, hybridep for NVL72.", "", "",
     kCuda},
};

}  // namespace

std::vector<KnobTable> experts() {
  return {{"model", "", "experts", kRouting},
          {"model", "", "experts", kExperts},
          {"model", "", "a setting of the cuda backend", kGpu}};
}

}  // namespace viaduct::catalogue_tables
