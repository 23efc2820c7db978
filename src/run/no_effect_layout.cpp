// Fields of ranks, pipelines, sharding, recompute and offload that have no effect.

#include "run/no_effect_rules.h"
#include "run/parallel_settings.h"

namespace viaduct {
namespace {

std::string one_stage(const RunConfig& c, const ConfigOutcome&) {
  return reason_if(c.parallel.stages() == 1, "model.pipeline_model_parallel_size = 1");
}

std::string one_data_rank(const RunConfig& c, const ConfigOutcome&) {
  return reason_if(document_ranks(c) == 1,
                   "data-parallel ranks · context_parallel_size = 1: no weights are gathered");
}

}  // namespace

const std::vector<NoEffectRule>& layout_without_effect() {
  static const std::vector<NoEffectRule> kRules{
      {{"model.make_vocab_size_divisible_by"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.parallel.tensor_model_parallel_size == 1,
                          "model.tensor_model_parallel_size = 1");
       }},
      {{"model.cp_comm_type"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(
             c.parallel.context_parallel_size == 1 && !c.context_parallel.hybrid_context_parallel,
             "model.context_parallel_size = 1");
       }},
      {{"model.hybrid_context_parallel"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(
             document_ranks(c) == 1,
             "data-parallel ranks · context_parallel_size = 1: each document has one rank");
       }},
      {{"model.account_for_embedding_in_pipeline_split", "model.account_for_loss_in_pipeline_split",
        "model.deallocate_pipeline_outputs", "model.pipeline_dtype", "model.variable_seq_lengths",
        "model.batch_p2p_comm", "comm_overlap.overlap_p2p_comm"},
       one_stage},
      {{"model.distribute_saved_activations"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.parallel.tensor_model_parallel_size == 1,
                          "model.tensor_model_parallel_size = 1");
       }},
      {{"model.num_microbatches_with_partial_activation_checkpoints"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const auto& number = c.recompute.num_microbatches_with_partial_activation_checkpoints;
         return reason_if(c.parallel.stages() == 1 && number.value_or(0) > 0 &&
                              c.pipeline.pipeline_schedule == PipelineOrder::one_f_one_b,
                          "one pipeline stage holds one micro-batch at a time");
       }},
      {{"memory.offload_path", "memory.offload_bytes"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.offload.by_layer() && !c.offload.by_module() &&
                              c.state_offload.fraction() == 0 && !c.offload.moves_weights(),
                          "nothing is offloaded");
       }},
      {{"dist.use_tp_pp_dp_mapping"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const bool one = c.parallel.stages() == 1 || data_parallel_size(c) == 1;
         return reason_if(one, "with one pipeline stage or one data rank both orders are the same");
       }},
      {{"dist.align_grad_reduce"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.pipeline.virtual_stages() == 1, "there are no virtual pipeline stages");
       }},
      {{"comm_overlap.overlap_moe_expert_parallel_comm"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(
             c.parallel.stages() == 1 && micro_batches(c) == 1,
             "a step has one micro-batch, so there is no other one to compute meanwhile");
       }},
      {{"ddp.overlap_param_gather", "ddp.align_param_gather"}, one_data_rank},
      {{"ddp.data_parallel_sharding_strategy", "dist.fsdp", "dist.use_megatron_fsdp",
        "dist.use_torch_fsdp2"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(document_ranks(c) == 1,
                          "data-parallel ranks · context_parallel_size = 1: one shard is all");
       }},
      {{"model.tensor_parallel_num_weight_shards"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(
             c.ddp.tensor_parallel_num_weight_shards == c.parallel.tensor_model_parallel_size,
             "it is model.tensor_model_parallel_size");
       }},
      {{"ddp.megatron_fsdp_grad_comm_dtype"},
       [](const RunConfig& c, const ConfigOutcome&) {
         if (document_ranks(c) == c.ddp.num_distributed_optimizer_instances)
           return std::string("an optimizer instance has one rank: nothing is reduce-scattered");
         const bool fp32 = c.ddp.megatron_fsdp_grad_comm_dtype == NumberFormat::fp32;
         return reason_if(fp32 == c.ddp.grad_reduce_in_fp32, "main gradients have this format");
       }},
      {{"ddp.suggested_communication_unit_size", "ddp.fsdp_double_buffer"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const bool one = document_ranks(c) == 1 && !c.offload.moves_weights();
         return reason_if(!c.ddp.shards_weights() || one,
                          one ? "data-parallel ranks · context_parallel_size = 1: one shard is all"
                              : stated("ddp.data_parallel_sharding_strategy", c.ddp.strategy()) +
                                    ": no layers are gathered for their use");
       }},
      {{"ddp.bucket_size", "ddp.num_buckets"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.ddp.shards_gradients() && document_ranks(c) > 1,
                          stated("ddp.data_parallel_sharding_strategy", c.ddp.strategy()) +
                              ": each layer is a bucket");
       }},
  };
  return kRules;
}

}  // namespace viaduct
