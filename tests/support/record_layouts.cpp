#include "support/record_layouts.h"

#include "support/paths.h"

namespace viaduct::test {
namespace {

using List = std::vector<RecordLayout>;

const std::string kStages = "model.pipeline_model_parallel_size=2",
                  kTensor = "model.tensor_model_parallel_size=2",
                  kContext = "model.context_parallel_size=2",
                  kSequence = "model.sequence_parallel=true",
                  kChunks = "model.virtual_pipeline_model_parallel_size=2",
                  kStrategy = "ddp.data_parallel_sharding_strategy=",
                  kSchedule = "model.pipeline_schedule=", kRecipe = "mixed_precision=",
                  kOptimizer = "optimizer.optimizer=";
const Overrides kOverlap{"ddp.overlap_grad_reduce=true", "ddp.overlap_param_gather=true",
                         "ddp.bucket_size=3000"};

/// With a capacity factor each expert has the same number of rows, as dry runs assume.
Overrides experts(int64_t count) {
  return {"model.family=qwen3_moe",
          "model.num_moe_experts=" + std::to_string(count),
          "model.moe_router_topk=2",
          "model.moe_ffn_hidden_size=16",
          "model.moe_expert_capacity_factor=1.0",
          "model.moe_pad_expert_input_to_capacity=true"};
}
Overrides with_shared(int64_t count) {
  return experts(count) +
         Overrides{"model.family=qwen2_moe", "model.moe_shared_expert_intermediate_size=32"};
}

std::string images(const char* model) {
  return "model.hf_config=" + (test_data("golden") / model / "model").string();
}

List tensors_and_context() {
  return {
      {"alone", {"dist.ranks=1"}},
      {"encoder",
       {"dist.ranks=4", kTensor, kSequence, "model.family=t5", "model.encoder_seq_length=48"},
       true},
      {"encoder_stages",
       {"dist.ranks=3", kStages, "model.encoder_pipeline_model_parallel_size=1", "model.family=t5",
        "model.encoder_seq_length=48"},
       true},
      {"encoder_stages_before_chunks",
       {"dist.ranks=3", kStages, kChunks, "model.encoder_pipeline_model_parallel_size=1",
        "model.family=t5", "model.encoder_seq_length=48"},
       true},
      {"encoder_own_tensor_ranks",
       {"dist.ranks=6", kTensor, kSequence, "model.encoder_pipeline_model_parallel_size=1",
        "model.encoder_tensor_model_parallel_size=1", "model.family=t5",
        "model.encoder_seq_length=48"},
       true},
      {"images", {"dist.ranks=4", kTensor, images("llava_clip")}, true},
      {"images_stages",
       {"dist.ranks=4", kStages, "model.context_parallel_size=2", images("llava_clip")},
       true},
      {"images_own_stages",
       {"dist.ranks=4", kStages, "model.encoder_pipeline_model_parallel_size=2",
        images("llava_clip")},
       true},
      {"images_own_stages_before_a_v",
       {"dist.ranks=4", kStages, kChunks, kSchedule + "dualpipe_v",
        "model.encoder_pipeline_model_parallel_size=2", images("llava_clip")},
       true},
      {"images_own_tensor_ranks",
       {"dist.ranks=3", kTensor, "model.encoder_pipeline_model_parallel_size=1",
        "model.encoder_tensor_model_parallel_size=1", images("llava_clip")},
       true},
      {"images_ahead",
       {"dist.ranks=2", kContext, "model.cp_comm_type=a2a", images("gemma3_images"),
        "model.family=gemma3_text", "model.num_layers=3"}},
      {"images_frozen_tower",
       {"dist.ranks=2", images("llava_clip"), "model.freeze_vision_model=true"}},
      {"tensor", {"dist.ranks=2", kTensor}, true},
      {"sequence", {"dist.ranks=2", kTensor, kSequence}, true},
      {"trained_activation_and_temperature",
       {"dist.ranks=4", kTensor, kSequence, kStages, "model.family=apertus",
        "model.qk_layernorm_after_rope=true", "model.attention_temperature_scale=0.1",
        "model.attention_temperature_length=8"},
       true},
      {"parallel_blocks",
       {"dist.ranks=4", kTensor, kSequence, kStages, "model.parallel_block=true",
        "model.parallel_block_shared_norm=true", "model.add_head_bias=true"},
       true},
      {"ring_of_products",
       {"dist.ranks=2", kTensor, kSequence, "comm_overlap.tp_comm_overlap=true",
        "comm_overlap.method=ring_exchange"},
       true},
      {"ring", {"dist.ranks=4", "model.context_parallel_size=4", "model.cp_comm_type=p2p"}, true},
      {"ring_of_rings",
       {"dist.ranks=4", "model.context_parallel_size=4", "model.cp_comm_type=a2a+p2p",
        "model.hierarchical_context_parallel_sizes=[2, 2]"},
       true},
      {"exchanged", {"dist.ranks=2", kContext, "model.cp_comm_type=a2a"}},
      {"gathered", {"dist.ranks=2", kContext, "model.cp_comm_type=all_gather"}},
      {"hybrid",
       {"dist.ranks=4", "model.hybrid_context_parallel=true", "dataset.reset_attention_mask=true",
        "dataset.reset_position_ids=true", "dataset.eod_id=3", "model.seq_length=64",
        "model.max_seqlen_per_dp_cp_rank=40"},
       true}};
}

List adapters() {
  const std::string lora = "peft.scheme=lora", rank = "peft.dim=4";
  return {{"adapters", {"dist.ranks=1", lora, rank}},
          {"adapters_tensor_data",
           {"dist.ranks=4", kTensor, kSequence, lora, rank, "train.global_batch_size=8"}},
          {"adapters_stages",
           {"dist.ranks=2", kStages, lora, rank, "peft.alpha_pattern={q_proj: 2}"},
           true},
          {"adapters_recompute",
           {"dist.ranks=1", lora, rank, "model.recompute_granularity=selective",
            "model.recompute_modules=[core_attn, mlp]"}},
          {"adapters_magnitudes",
           {"dist.ranks=4", kTensor, kSequence, "peft.scheme=dora", rank, "peft.dropout=0.1",
            "peft.train=[norm]", "train.global_batch_size=8"}},
          {"adapters_fp8_delayed",
           {"dist.ranks=2", kTensor, lora, rank, kRecipe + "bf16_with_fp8_delayed_scaling_mixed"}},
          {"adapters_mxfp8",
           {"dist.ranks=2", kStages, "peft.scheme=dora", rank, "peft.dropout=0.1",
            kRecipe + "bf16_with_mxfp8_mixed"},
           true},
          {"adapters_further_tokens",
           {"dist.ranks=2", kStages, lora, rank, "model.mtp_num_layers=1",
            "peft.target_modules=[all-linear, mtp]"},
           true}};
}

List stages() {
  return {
      {"one_f_one_b", {"dist.ranks=2", kStages}, true},
      {"gpipe", {"dist.ranks=2", kStages, kSchedule + "gpipe"}, true},
      {"zero_bubble", {"dist.ranks=4", kStages, kSchedule + "zero_bubble"}, true},
      {"v", {"dist.ranks=4", kStages, kChunks, kSchedule + "dualpipe_v"}, true},
      {"tied_v",
       {"dist.ranks=4", kStages, kChunks, kSchedule + "dualpipe_v",
        "model.share_embeddings_and_output_weights=true", "model.mtp_num_layers=1"},
       true},
      {"chunks", {"dist.ranks=4", kStages, kTensor, kChunks}, true},
      {"chunks_in_groups",
       {"dist.ranks=2", kStages, kChunks, "model.microbatch_group_size_per_vp_stage=4",
        "comm_overlap.overlap_p2p_comm=false"},
       true},
      {"uneven", {"dist.ranks=2", kStages, "model.pipeline_model_parallel_layout=Et|tttL"}, true},
      {"deferred_heads",
       {"dist.ranks=2", kStages, "comm_overlap.defer_embedding_wgrad_compute=true",
        "comm_overlap.wgrad_deferral_limit=0"},
       true},
      {"further_tokens", {"dist.ranks=2", kStages, "model.mtp_num_layers=1"}, true},
      {"all_axes", Overrides{"dist.ranks=16", kTensor, kStages, kContext, kSequence} + kOverlap,
       true}};
}

List data() {
  return {
      {"whole_optimizer", {"dist.ranks=2", "ddp.use_distributed_optimizer=false"}},
      {"data_sharded",
       Overrides{"dist.ranks=4", kTensor, kSequence, "ddp.use_distributed_optimizer=true"} +
           kOverlap,
       true},
      {"sharded_gradients", {"dist.ranks=2", kStrategy + "optim_grads"}},
      {"fully_sharded", {"dist.ranks=2", kStrategy + "optim_grads_params"}},
      {"fully_sharded_overlapped",
       Overrides{"dist.ranks=4", kTensor, kStrategy + "optim_grads_params"} + kOverlap, true},
      {"fully_sharded_stages", {"dist.ranks=4", kStages, kStrategy + "optim_grads_params"}, true},
      {"two_buffers",
       {"dist.ranks=2", kStrategy + "optim_grads_params", "ddp.fsdp_double_buffer=true"}},
      {"instances",
       {"dist.ranks=4", "ddp.use_distributed_optimizer=true",
        "ddp.num_distributed_optimizer_instances=2"}},
      {"shared_state",
       {"dist.ranks=4", "ddp.num_distributed_optimizer_instances=2",
        "ddp.outer_dp_sharding_strategy=optim"}},
      {"gradients_in_bf16",
       {"dist.ranks=2", kRecipe + "bf16_mixed", "ddp.grad_reduce_in_fp32=false"}}};
}

List of_experts() {
  return {
      {"exchanged_experts",
       Overrides{"dist.ranks=4", "model.expert_model_parallel_size=4"} + experts(4)},
      {"gathered_experts", Overrides{"dist.ranks=4", "model.expert_model_parallel_size=2",
                                     "model.expert_tensor_parallel_size=2",
                                     "model.moe_token_dispatcher_type=allgather"} +
                               with_shared(4)},
      {"experts_by_domain",
       Overrides{"dist.ranks=4", "model.expert_model_parallel_size=4",
                 "model.moe_token_dispatcher_type=flex", "dist.nvlink_domain_size=2",
                 "model.moe_dispatch_fwd_dtype=mxfp8"} +
           with_shared(4)},
      {"folded_experts",
       Overrides{"dist.ranks=4", kTensor, kContext, "model.expert_model_parallel_size=4",
                 "model.expert_tensor_parallel_size=1"} +
           experts(4),
       true},
      {"experts_in_stages",
       Overrides{"dist.ranks=4", kStages, "model.expert_model_parallel_size=2"} + experts(4), true},
      {"hidden_exchange",
       Overrides{"dist.ranks=4", kStages, kChunks, kRecipe + "bf16_mixed",
                 "model.expert_model_parallel_size=2",
                 "comm_overlap.overlap_moe_expert_parallel_comm=true"} +
           experts(4),
       true},
      {"experts_of_parallel_blocks",
       Overrides{"dist.ranks=4", kTensor, kSequence, kStages, "model.expert_tensor_parallel_size=1",
                 "model.parallel_block=true"} +
           with_shared(4),
       true},
      {"scaled_choice",
       {"dist.ranks=4", "model.family=qwen3_moe", "model.num_moe_experts=4", kTensor, kContext,
        "model.expert_tensor_parallel_size=1", "model.moe_router_topk=2",
        "model.moe_router_load_balancing_type=sinkhorn"},
       true},
      {"quantile_balance",
       {"dist.ranks=4", "model.family=qwen3_moe", "model.num_moe_experts=4", kTensor, kContext,
        "model.expert_tensor_parallel_size=1", "model.moe_router_topk=2",
        "model.moe_router_pre_softmax=false", "model.moe_router_score_function=sigmoid",
        "model.moe_router_load_balancing_type=quantile_balancing"},
       true}};
}

List memory() {
  const std::string full = "model.recompute_granularity=full", one = "model.recompute_num_layers=1";
  return {{"recomputed_units",
           {"dist.ranks=2", kTensor, "model.recompute_granularity=selective",
            "model.recompute_modules=[core_attn, layernorm, mlp]"},
           true},
          {"recomputed_layers",
           {"dist.ranks=2", kStages, full, "model.recompute_method=uniform", one},
           true},
          {"partly_recomputed",
           {"dist.ranks=2", kStages, full, "model.recompute_method=block", one,
            "model.num_microbatches_with_partial_activation_checkpoints=1"},
           true},
          {"offloaded_layers",
           {"dist.ranks=1", "model.cpu_offloading=true", "model.cpu_offloading_num_layers=2"}},
          {"offloaded_modules",
           {"dist.ranks=1", "model.fine_grained_activation_offloading=true",
            "model.offload_modules=[mlp]"}},
          {"offloaded_state",
           {"dist.ranks=2", "optimizer.optimizer_cpu_offload=true",
            "optimizer.optimizer_offload_fraction=1"}}};
}

List formats_and_optimizers() {
  return {{"bf16", {"dist.ranks=2", kTensor, kRecipe + "bf16_mixed"}, true},
          {"fp16", {"dist.ranks=2", kRecipe + "fp16_mixed"}},
          {"fp8_delayed",
           {"dist.ranks=2", kTensor, kRecipe + "bf16_with_fp8_delayed_scaling_mixed"},
           true},
          {"fp8_current", {"dist.ranks=2", kRecipe + "bf16_with_fp8_current_scaling_mixed"}},
          {"mxfp8", {"dist.ranks=2", kStages, kRecipe + "bf16_with_mxfp8_mixed"}, true},
          {"nvfp4", {"dist.ranks=2", kRecipe + "bf16_with_nvfp4_mixed"}},
          {"moments_in_bf16",
           {"dist.ranks=2", kRecipe + "bf16_mixed", "optimizer.use_precision_aware_optimizer=true",
            "optimizer.exp_avg_dtype=bf16", "optimizer.exp_avg_sq_dtype=bf16"}},
          {"sgd", {"dist.ranks=2", kOptimizer + "sgd"}},
          {"lion", {"dist.ranks=2", kTensor, kOptimizer + "lion"}, true},
          {"muon", {"dist.ranks=2", kOptimizer + "muon"}},
          {"adafactor", {"dist.ranks=2", kTensor, kOptimizer + "adafactor"}, true}};
}

}  // namespace

std::vector<RecordLayout> record_layouts() {
  List all;
  for (const List& part : {tensors_and_context(), adapters(), stages(), data(), of_experts(),
                           memory(), formats_and_optimizers()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace viaduct::test
