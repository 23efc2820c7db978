// Planned knobs of tensor, context, pipeline and data parallelism, and of fully sharded weights.

#include "config/catalogue.h"

namespace viaduct::catalogue_tables {
namespace {

constexpr KnobReach kCuda = KnobReach::cuda_only;

constexpr KnobRow kPipeline[] = {
    {"microbatch_group_size_per_vp_stage", "int or null", "null", "",
     "Micro-batches that a virtual stage runs before the next chunk; null: pp.",
     "pp <= value <= micro-batches; divides them or leaves at least pp"},
    {"account_for_embedding_in_pipeline_split", "bool", "false", "",
     "The embedding counts as one layer when layers are cut into stages.",
     "layers + 1 (with loss: + 2) divisible by pp · virtual stages; excludes explicit first and "
     "last stages"},
    {"account_for_loss_in_pipeline_split", "bool", "false", "",
     "The loss layer counts as one layer when layers are cut into stages.",
     "as account_for_embedding_in_pipeline_split"},
    {"num_layers_in_first_pipeline_stage", "int or null", "null", "",
     "Layers of the first stage; the stages without an own number share the rest evenly.",
     "> 0; divisible by virtual stages"},
    {"num_layers_in_last_pipeline_stage", "int or null", "null", "",
     "Layers of the last stage; the stages without an own number share the rest evenly.",
     "> 0; divisible by virtual stages"},
    {"pipeline_model_parallel_layout", "string or list or null", "null", "",
     "Stages written out: E embedding, t layer, m multi-token layer, L loss, `|` ends a stage, "
     "`(x)*n` and `x*n` repeat.",
     "one E first, one L last, as many t as layers; number of stages divisible by pp"},
    {"pipeline_dtype", "string or null", "null", "fp32 bf16 fp16",
     "Format of messages between stages; null: activations'.", ""},
    {"pipeline_model_parallel_comm_backend", "string or null", "null", "nccl ucc",
     "Transport between stages.", "", "", kCuda},
    {"batch_p2p_comm", "bool or auto", "auto", "",
     "A stage's send and receive are grouped; auto: not with virtual stages.",
     "excludes comm_overlap.overlap_p2p_comm"},
    {"batch_p2p_sync", "bool", "true", "",
     "Device synchronization after grouped sends and receives.", "", "", kCuda},
    {"overlap_p2p_comm_warmup_flush", "bool", "false", "",
     "Sends and receives overlap in warm-up and drain too.", "needs comm_overlap.overlap_p2p_comm"},
    {"deallocate_pipeline_outputs", "bool", "true", "",
     "A sent activation is freed; its place in the graph stays.", ""},
    {"variable_seq_lengths", "bool", "false", "", "Stages send shapes before activations.",
     "excludes moe_token_dispatcher_type=allgather"},
    {"encoder_pipeline_model_parallel_size", "int", "0", "",
     "Stages of the encoder of an encoder-decoder model; 0: it lives on the decoder's first stage.",
     "0 or 1 in practice"},
    {"encoder_tensor_model_parallel_size", "int", "0", "", "tp of the encoder; 0: tp.",
     "needs encoder_pipeline_model_parallel_size > 0; at most tp"},
};

constexpr KnobRow kContext[] = {
    {"cp_comm_type", "string or list of string", "p2p", "p2p all_gather a2a a2a+p2p",
     "How key and value meet all queries: rings, gathers, exchange of sequence for heads, or both "
     "in two levels; one for all "
     "layers or a list of one per layer.",
     "list of num_layers; sliding windows need a2a or all_gather; a2a needs heads / tp divisible "
     "by cp"},
    {"hierarchical_context_parallel_sizes", "list of int or null", "null", "",
     "Sizes of the two levels of a2a+p2p, inner first.",
     "their product is cp; required by a2a+p2p"},
    {"hybrid_context_parallel", "bool", "false", "", "Each sequence gets its own cp by its length.",
     "no pipeline, per-token loss"},
    {"max_seqlen_per_dp_cp_rank", "int or null", "null", "",
     "Tokens a rank takes under hybrid_context_parallel.", ""},
};

constexpr KnobRow kTensor[] = {
    {"tp_comm_bulk_dgrad", "bool", "true", "",
     "The gather of saved inputs runs beside the input-gradient GEMM (qkv, fc1).",
     "excludes tp_comm_overlap_rs_dgrad"},
    {"tp_comm_bulk_wgrad", "bool", "true", "",
     "The reduce-scatter of input gradients runs beside the weight-gradient GEMM (qkv, fc1).",
     "excludes tp_comm_overlap_rs_dgrad"},
    {"tp_comm_overlap_ag", "bool", "true", "",
     "Gathers are cut into ring steps between GEMM chunks.", ""},
    {"tp_comm_overlap_rs", "bool", "true", "",
     "Reduce-scatters are cut into chunks behind GEMM chunks.", ""},
    {"tp_comm_overlap_rs_dgrad", "bool", "false", "",
     "The reduce-scatter of input gradients overlaps the GEMM that makes them.",
     "replaces both bulk modes"},
    {"tp_comm_overlap_disable_qkv", "bool", "false", "", "No overlap on qkv.", ""},
    {"tp_comm_overlap_disable_fc1", "bool", "false", "", "No overlap on fc1.", ""},
    {"tp_comm_bootstrap_backend", "string", "nccl", "nccl mpi gloo",
     "How buffer handles are exchanged at start.", "", "", kCuda},
    {"tensor_parallel_num_weight_shards", "int or null", "null", "",
     "Weights are kept in more shards than tp and rebuilt before use.", ""},
};

constexpr KnobRow kOverlap[] = {
    {"tp_comm_overlap", "bool or auto", "auto", "",
     "Tensor-parallel communication is hidden under the GEMMs it feeds; auto: where tp > 1, "
     "sequence parallel, static shapes "
     "and the transport allow it.",
     "tp > 1, sequence_parallel, static shapes"},
    {"tp_comm_overlap_cfg", "map or null", "null", "",
     "Per GEMM (qkv_fprop, qkv_dgrad, qkv_wgrad, proj_fprop, proj_dgrad, fc1_fprop, fc1_dgrad, "
     "fc1_wgrad, fc2_fprop, "
     "fc2_dgrad): a map with the fields below; null: built-in choices.",
     ""},
    {"method", "string or null", "null", "bulk ring_exchange pipeline",
     "Overlap method of a GEMM, inside tp_comm_overlap_cfg.",
     "bulk only for qkv/fc1 dgrad and wgrad"},
    {"num_splits", "int or null", "null", "", "Chunks of a pipelined GEMM; null: 4, on rings tp.",
     "divides the output features", "num_split"},
    {"aggregate", "bool", "false", "", "Ring steps move chunks in pairs.", ""},
    {"fp8_buf", "bool", "false", "",
     "Reduce-scatter chunks travel in FP8 and are summed in higher precision.",
     "pipeline method under an FP8 recipe"},
    {"overlap_p2p_comm", "bool or auto", "auto", "",
     "Sends and receives between stages are posted early and waited for just before use; auto: if "
     "pp > 1 with virtual stages.",
     "excludes model.batch_p2p_comm"},
    {"defer_embedding_wgrad_compute", "bool", "false", "",
     "Weight gradients of the output layer wait until the pipeline drains.",
     "pp > 1; model.gradient_accumulation_fusion; wgrad_deferral_limit >= 0"},
    {"wgrad_deferral_limit", "int", "-1", "",
     "Micro-batches whose output-layer weight gradient may wait; 0: all.", ""},
    {"overlap_moe_expert_parallel_comm", "bool", "false", "",
     "Expert exchange of one micro-batch runs under the compute of another.",
     "ep > 1, alltoall or flex, 16-bit, virtual stages if pp > 1, no full recompute, no "
     "shared-expert overlap"},
    {"delay_wgrad_compute", "bool", "false", "",
     "Weight gradients run under the other micro-batch's exchange.",
     "needs overlap_moe_expert_parallel_comm"},
};

constexpr KnobRow kOverlapOnGpu[] = {
    {"num_sm", "int or null", "null", "",
     "Multiprocessors given to communication; null: 16, on rings 1.", "at most the device's", "",
     kCuda},
    {"cga_size", "int or null", "null", "",
     "Cluster size of the communication kernel; null: 2, on rings 1.", "1 to 4, at most num_sm", "",
     kCuda},
    {"set_sm_margin", "bool", "false", "", "The GEMM leaves num_sm multiprocessors free.", "", "",
     kCuda},
    {"atomic_gemm", "bool", "false", "", "Chunks are handed over by counters inside one kernel.",
     "FP8; both ends paired", "", kCuda},
    {"use_ce", "bool", "true", "", "Copy engines move the chunks.", "", "", kCuda},
};

constexpr KnobRow kData[] = {
    {"num_buckets", "int or null", "null", "", "Number of gradient buckets instead of their size.",
     "excludes bucket_size"},
    {"num_distributed_optimizer_instances", "int", "1", "",
     "Optimizer shards are kept this many times: reduce-scatter inside an instance, all-reduce of "
     "the shard across them.",
     "needs use_distributed_optimizer; divides dp · cp and expert dp; not with "
     "reduce_scatter_with_fp32_accumulation"},
    {"reduce_scatter_with_fp32_accumulation", "bool", "false", "",
     "Shards travel in low precision and are summed in FP32.",
     "one instance, one bucket per group"},
    {"param_name_patterns_for_fp32_local_accumulation", "list of string", "[]", "",
     "Parameters (globs, or `all`) that accumulate micro-batches in FP32 and are reduced in low "
     "precision.",
     "excludes grad_reduce_in_fp32"},
    {"grad_reduce_in_bf16", "bool", "false", "",
     "Turns grad_reduce_in_fp32 off where a recipe turned it on.", ""},
    {"check_for_large_grads", "bool", "false", "",
     "An unusually large gradient norm of a bucket is an error.", ""},
    {"pad_buckets_for_high_nccl_busbw", "bool", "false", "",
     "Buckets end on multiples of 65536 elements.", ""},
};

constexpr KnobRow kDataOnGpu[] = {
    {"nccl_ub", "bool", "false", "", "Gradient and weight buffers are registered with NCCL.", "",
     "", kCuda},
    {"disable_symmetric_registration", "bool", "false", "", "Registered buffers are not symmetric.",
     "needs nccl_ub", "", kCuda},
    {"fsdp_manual_registration", "bool", "false", "",
     "Fully sharded buffers are registered at one point.", "needs nccl_ub", "", kCuda},
};

constexpr KnobRow kFullySharded[] = {
    {"data_parallel_sharding_strategy", "string", "no_shard",
     "no_shard optim optim_grads optim_grads_params",
     "What is sharded: nothing, optimizer state, also gradients, also weights.",
     "optim_grads needs overlap_grad_reduce, optim_grads_params also overlap_param_gather"},
    {"outer_dp_sharding_strategy", "string", "no_shard", "no_shard optim",
     "Hybrid sharding: what the outer data-parallel level does.", "outer level > 1"},
    {"suggested_communication_unit_size", "int or null", "null", "",
     "Elements of a gather or reduce-scatter, and the depth of prefetch; null: 40 000 000.", ""},
    {"fsdp_double_buffer", "bool", "false", "", "Two fixed buffers are reused over units.",
     "units of equal size"},
    {"megatron_fsdp_main_params_dtype", "string or null", "fp32", "fp32 bf16 fp16",
     "Format of sharded masters.", ""},
    {"megatron_fsdp_main_grads_dtype", "string or null", "null", "fp32 bf16 fp16",
     "Format of sharded main gradients.", ""},
    {"megatron_fsdp_grad_comm_dtype", "string or null", "null", "fp32 bf16 fp16",
     "Format of gradients on the wire.", ""},
    {"megatron_fsdp_version", "int", "1", "",
     "Version of Megatron's implementation; there is one here.", ""},
};

constexpr KnobRow kInit[] = {
    {"fsdp", "string or null", "null", "pytorch megatron",
     "Fully sharded data parallel, as one of two presets.", ""},
    {"use_torch_fsdp2", "bool", "false", "", "The preset `pytorch` of fully sharded data parallel.",
     "no pipeline, no experts; untied embeddings; not with use_distributed_optimizer"},
    {"use_megatron_fsdp", "bool", "false", "",
     "The preset `megatron` of fully sharded data parallel.",
     "excludes use_torch_fsdp2 and use_tp_pp_dp_mapping", "ddp.use_megatron_fsdp"},
    {"align_grad_reduce", "bool", "true", "",
     "Pipeline stages start gradient reductions at aligned virtual steps.", ""},
    {"use_decentralized_pg", "bool", "false", "",
     "Groups as values instead of globals; that is always so here.", ""},
    {"cluster", "string or null", "null", "",
     "Cluster that dist.device=sim runs on: a name of hardware/ or a YAML file.", ""},
    {"numactl", "bool", "false", "", "Each rank is bound to the memory and cores of one NUMA node.",
     ""},
};

constexpr KnobRow kInitOnGpu[] = {
    {"nvlink_domain_size", "int or null", "null", "", "GPUs of an NVLink domain.", "", "", kCuda},
    {"nccl_communicator_config_path", "string or null", "null", "",
     "YAML file: per group min_ctas, max_ctas, cga_cluster_size, net_name.", "", "", kCuda},
    {"high_priority_stream_groups", "list of string", "[]", "",
     "Groups whose communication stream has high priority.", "", "", kCuda},
    {"use_sharp", "bool", "false", "",
     "Reductions inside the switches, for the first group created.", "", "use_sharp_on", kCuda},
    {"distributed_backend", "string", "nccl", "nccl gloo", "Transport library.", "", "", kCuda},
    {"vboost", "int", "0", "", "Core-clock boost; state of the driver, set outside.", "",
     "--vboost", kCuda},
};

}  // namespace

std::vector<KnobTable> parallel() {
  const char* gpu = "a setting of the cuda backend";
  return {
      {"model", "", "pipeline parallelism", kPipeline},
      {"model", "", "context parallelism", kContext},
      {"model", "", "tensor parallelism", kTensor},
      {"comm_overlap", "Communication hidden under computation.", "overlapped communication",
       kOverlap},
      {"comm_overlap", "", gpu, kOverlapOnGpu},
      {"ddp", "", "data parallelism", kData},
      {"ddp", "", gpu, kDataOnGpu},
      {"ddp", "", "fully sharded data parallel", kFullySharded},
      {"dist", "", "more than one rank, and the simulator", kInit},
      {"dist", "", gpu, kInitOnGpu},
  };
}

}  // namespace viaduct::catalogue_tables
