#include "run/resume_rules.h"

#include <algorithm>
#include <array>

#include "run/overlap_fields.h"

namespace viaduct {
namespace {

constexpr std::string_view kArchitecture = "the weights were trained with the old value";
constexpr std::string_view kShapes = "the checkpoint's tensors have other shapes";
constexpr std::string_view kDropout = "dropout has this rate from here on";
constexpr std::string_view kDropped = "different tokens are dropped from here on";
constexpr std::string_view kBalance = "routers are balanced by it from here on";
constexpr std::string_view kRows =
    "the position in the data is a number of rows, and these are different rows now";
constexpr std::string_view kOrder =
    "rows come in a different order from here on: some a second time, some not at all";
constexpr std::string_view kTargets = "which tokens predict which changes from here on";
constexpr std::string_view kEpochs =
    "documents and samples are shuffled over all epochs that the run needs, and their number "
    "differs now: rows come in a different order from here on, some a second time, some not at all";
constexpr std::string_view kOtherRounding = "steps round otherwise";
constexpr std::string_view kStateFormat =
    "the optimizer's state is converted to the new formats, and steps round differently";
constexpr std::string_view kAdapterScale = "the adapters were trained with the old scale";
constexpr std::string_view kBatch =
    "the run continues at the same row of the data; a step takes this many rows from here on, and "
    "the learning rate's schedule counts rows";

struct NamedRule {
  std::string_view name;
  ResumeRule rule;
};

constexpr ResumeRule refused(std::string_view effect) {
  return {ResumeChange::refused, effect};
}
constexpr ResumeRule reshaped() {
  return {ResumeChange::refused, kShapes, true};
}
constexpr ResumeRule said(std::string_view effect) {
  return {ResumeChange::said, effect};
}

constexpr NamedRule kRules[] = {
    {"model.family", refused(kArchitecture)},
    {"model.num_layers", refused(kArchitecture)},
    {"model.hidden_size", reshaped()},
    {"model.ffn_hidden_size", reshaped()},
    {"model.num_attention_heads", refused(kArchitecture)},
    {"model.num_query_groups", refused(kArchitecture)},
    {"model.kv_channels", refused(kArchitecture)},
    {"model.seq_length", refused(kRows)},
    {"model.max_position_embeddings", refused(kArchitecture)},
    {"model.vocab_size", reshaped()},
    {"model.normalization", refused(kArchitecture)},
    {"model.layernorm_epsilon", refused(kArchitecture)},
    {"model.layernorm_zero_centered_gamma", refused(kArchitecture)},
    {"model.pre_sublayer_norm", refused(kArchitecture)},
    {"model.post_sublayer_norm", refused(kArchitecture)},
    {"model.activation_func", refused(kArchitecture)},
    {"model.activation_func_clamp_value", refused(kArchitecture)},
    {"model.glu_linear_offset", refused(kArchitecture)},
    {"model.qk_layernorm_per_head", refused(kArchitecture)},
    {"model.multi_latent_attention", reshaped()},
    {"model.q_lora_rank", reshaped()},
    {"model.kv_lora_rank", reshaped()},
    {"model.qk_head_dim", reshaped()},
    {"model.qk_pos_emb_head_dim", reshaped()},
    {"model.v_head_dim", reshaped()},
    {"model.softmax_type", refused(kArchitecture)},
    {"model.gated_linear_unit", refused(kArchitecture)},
    {"model.num_moe_experts", reshaped()},
    {"model.moe_router_linear_bias", refused(kArchitecture)},
    {"model.moe_ffn_hidden_size", reshaped()},
    {"model.moe_layer_freq", reshaped()},
    {"model.moe_shared_expert_intermediate_size", reshaped()},
    {"model.moe_shared_expert_gate", refused(kArchitecture)},
    {"model.moe_router_topk", refused(kArchitecture)},
    {"model.moe_router_score_function", refused(kArchitecture)},
    {"model.moe_router_pre_softmax", refused(kArchitecture)},
    {"model.moe_router_topk_scaling_factor", refused(kArchitecture)},
    {"model.moe_router_num_groups", refused(kArchitecture)},
    {"model.moe_router_group_topk", refused(kArchitecture)},
    {"model.moe_router_group_score_topk", refused(kArchitecture)},
    {"model.moe_router_norm_topk_prob", refused(kArchitecture)},
    {"model.moe_router_enable_expert_bias", refused(kArchitecture)},
    {"model.add_bias_linear", refused(kArchitecture)},
    {"model.add_qkv_bias", refused(kArchitecture)},
    {"model.add_attention_output_bias", refused(kArchitecture)},
    {"model.add_mlp_bias", refused(kArchitecture)},
    {"model.qk_layernorm", refused(kArchitecture)},
    {"model.window_size", refused(kArchitecture)},
    {"model.window_layers", refused(kArchitecture)},
    {"model.attn_logit_softcapping", refused(kArchitecture)},
    {"model.final_logit_softcapping", refused(kArchitecture)},
    {"model.softmax_scale", refused(kArchitecture)},
    {"model.position_embedding_type", refused(kArchitecture)},
    {"model.rotary_base", refused(kArchitecture)},
    {"model.rotary_percent", refused(kArchitecture)},
    {"model.rotary_interleaved", refused(kArchitecture)},
    {"model.rope_scaling", refused(kArchitecture)},
    {"model.window_rotary_base", refused(kArchitecture)},
    {"model.no_rope_freq", refused(kArchitecture)},
    {"model.share_embeddings_and_output_weights", refused(kArchitecture)},
    {"model.embedding_multiplier", refused(kArchitecture)},
    {"model.residual_multiplier", refused(kArchitecture)},
    {"model.logit_multiplier", refused(kArchitecture)},
    {"model.mtp_num_layers", refused(kArchitecture)},
    {"model.mtp_loss_scaling_factor",
     said("losses of further tokens have this weight in the gradient from here on")},
    {"model.hidden_dropout", said(kDropout)},
    {"model.embedding_dropout", said(kDropout)},
    {"model.attention_dropout", said(kDropout)},
    {"model.calculate_per_token_loss", said("gradients are averaged differently from here on")},
    {"optimizer.optimizer", refused("its state belongs to the old value")},
    {"optimizer.use_precision_aware_optimizer", said(kStateFormat)},
    {"optimizer.main_grads_dtype", said(kStateFormat)},
    {"optimizer.main_params_dtype", said(kStateFormat)},
    {"optimizer.exp_avg_dtype", said(kStateFormat)},
    {"optimizer.exp_avg_sq_dtype", said(kStateFormat)},
    {"optimizer.store_param_remainders", said(kStateFormat)},
    {kRunLength, said(kEpochs)},
    {kRunLengthInSamples, said(kEpochs)},
    {"train.global_batch_size", said(kBatch)},
    {"train.rampup_batch_size", said(kBatch)},
    {"train.decrease_batch_size_if_needed", said(kBatch)},
    {"model.fp32_residual_connection", said("steps round differently from here on")},
    {"model.moe_router_dtype", said("steps round differently from here on")},
    {"model.moe_dispatch_fwd_dtype", said(kOtherRounding)},
    {"model.moe_combine_bwd_dtype", said(kOtherRounding)},
    {"model.moe_router_padding_for_quantization", said(kOtherRounding)},
    {"model.moe_router_load_balancing_type", said(kBalance)},
    {"model.moe_router_qb_num_bins", said(kBalance)},
    {"model.moe_aux_loss_coeff", said(kBalance)},
    {"model.moe_router_bias_update_rate", said(kBalance)},
    {"model.moe_input_jitter_eps", said(kBalance)},
    {"model.moe_router_force_load_balancing", said("experts are chosen differently from here on")},
    {"model.moe_expert_capacity_factor", said(kDropped)},
    {"model.moe_expert_rank_capacity_factor", said(kDropped)},
    {"model.moe_token_drop_policy", said(kDropped)},
    {"model.moe_z_loss_coeff", said(kBalance)},
    {"model.attention_softmax_in_fp32", said("steps round differently from here on")},
    {"mixed_precision.recipe", said("masters and moments are kept; steps round differently")},
    {"mixed_precision.fp8", said(kOtherRounding)},
    {"mixed_precision.fp8_recipe", said(kOtherRounding)},
    {"mixed_precision.fp4", said(kOtherRounding)},
    {"mixed_precision.fp4_recipe", said(kOtherRounding)},
    {"mixed_precision.layers_in_bf16", said(kOtherRounding)},
    {"mixed_precision.fp8_wgrad", said(kOtherRounding)},
    {"mixed_precision.fp8_dot_product_attention", said(kOtherRounding)},
    {"mixed_precision.fp8_multi_head_attention", said(kOtherRounding)},
    {"mixed_precision.fp8_local_amax", said(kOtherRounding)},
    {"mixed_precision.tp_only_amax_red", said(kOtherRounding)},
    {"mixed_precision.fp8_margin", said(kOtherRounding)},
    {"mixed_precision.fp8_amax_history_len", said(kOtherRounding)},
    {"mixed_precision.fp8_amax_compute_algo", said(kOtherRounding)},
    {"mixed_precision.first_last_layers_bf16", said(kOtherRounding)},
    {"mixed_precision.num_layers_at_start_in_bf16", said(kOtherRounding)},
    {"mixed_precision.num_layers_at_end_in_bf16", said(kOtherRounding)},
    {"dist.product_algorithms_path",
     said("products may have other algorithms, which round otherwise")},
    {"dataset.blend", said(kRows)},
    {"dataset.blend_per_split", said(kRows)},
    {"dataset.split", said("rows move between training, validation and test")},
    {"dataset.random_seed", said(kOrder)},
    {"dataset.mid_level_dataset_surplus", said(kOrder)},
    {"dataset.dataloader_type", said(kOrder)},
    {"dataset.mock", said(kRows)},
    {"dataset.reset_position_ids", said(kTargets)},
    {"dataset.reset_attention_mask", said(kTargets)},
    {"dataset.eod_mask_loss", said(kTargets)},
    {"dataset.eod_id", said(kTargets)},
    {"dataset.packed_sequence_size", said(kRows)},
    {"dataset.packing_algorithm", said(kRows)},
    {"dataset.packing_split", said(kRows)},
    {"dataset.pad_seq_to_mult", said(kRows)},
    {"dataset.answer_only_loss", said(kTargets)},
    {"dataset.fim_rate", said(kTargets)},
    {"dataset.fim_spm_rate", said(kTargets)},
    {"dataset.fim_split_sample", said(kTargets)},
    {"dataset.fim_fragment_rate", said(kTargets)},
    {"dataset.fim_no_prefix", said(kTargets)},
    {"dataset.fim_prefix_token", said(kTargets)},
    {"dataset.fim_middle_token", said(kTargets)},
    {"dataset.fim_suffix_token", said(kTargets)},
    {"dataset.fim_pad_token", said(kTargets)},
    {"dataset.fim_eod_token", said(kTargets)},
    {"peft.scheme", refused("the checkpoint's adapters are of the old kind")},
    {"peft.target_modules", reshaped()},
    {"peft.exclude_modules", reshaped()},
    {"peft.dim", reshaped()},
    {"peft.rank_pattern", reshaped()},
    {"peft.alpha", refused(kAdapterScale)},
    {"peft.alpha_pattern", refused(kAdapterScale)},
    {"peft.rslora", refused(kAdapterScale)},
    {kDatasetContent, refused(kRows)},
    {kTokenizerContent, refused("the weights were trained on the tokens of the old tokenizer")},
};

/// Sections whose fields determine how a run is executed, watched or paced; all of them are free.
constexpr std::string_view kFreeSections[] = {"validation", "scheduler",  "ddp",    "comm_overlap",
                                              "dist",       "checkpoint", "logger", "profiling",
                                              "env_vars",   "memory"};

/// The free fields of other sections, one by one, so that each new field needs a decision.
constexpr std::string_view kFree[] = {
    "model.hf_config",  // its content is in the fields
    "model.make_vocab_size_divisible_by",
    "model.attention_backend",
    "model.masked_softmax_fusion",
    "model.apply_rope_fusion",
    "model.init_method_std",
    "model.tensor_model_parallel_size",
    "model.tensor_parallel_num_weight_shards",
    "model.pipeline_model_parallel_size",
    "model.context_parallel_size",
    "model.expert_model_parallel_size",
    "model.expert_tensor_parallel_size",
    "model.moe_token_dispatcher_type",
    "model.moe_flex_dispatcher_backend",
    "model.moe_shared_expert_overlap",
    "model.moe_pad_expert_input_to_capacity",
    "model.sequence_parallel",
    "model.cp_comm_type",
    "model.hierarchical_context_parallel_sizes",
    "model.hybrid_context_parallel",
    "model.max_seqlen_per_dp_cp_rank",
    "model.virtual_pipeline_model_parallel_size",
    "model.account_for_embedding_in_pipeline_split",
    "model.account_for_loss_in_pipeline_split",
    "model.num_layers_in_first_pipeline_stage",
    "model.num_layers_in_last_pipeline_stage",
    "model.pipeline_model_parallel_layout",
    "model.pipeline_schedule",
    "model.microbatch_group_size_per_vp_stage",
    "model.deallocate_pipeline_outputs",
    "model.pipeline_dtype",
    "model.variable_seq_lengths",
    "model.batch_p2p_comm",
    "model.overlap_p2p_comm_warmup_flush",
    "model.cross_entropy_loss_fusion",
    "model.cross_entropy_fusion_impl",
    "model.gradient_accumulation_fusion",
    "model.bias_activation_fusion",
    "model.bias_dropout_fusion",
    "model.gemm_epilogue_fusion",
    "model.recompute_logits",
    "model.recompute_granularity",
    "model.recompute_method",
    "model.recompute_num_layers",
    "model.recompute_modules",
    "model.distribute_saved_activations",
    "model.recompute_segments_apart",
    "model.num_microbatches_with_partial_activation_checkpoints",
    "model.cpu_offloading",
    "model.cpu_offloading_num_layers",
    "model.cpu_offloading_activations",
    "model.cpu_offloading_weights",
    "model.fine_grained_activation_offloading",
    "model.offload_modules",
    "model.min_offloaded_tensor_size",
    "optimizer.optimizer_cpu_offload",
    "optimizer.optimizer_offload_fraction",
    "optimizer.overlap_cpu_optimizer_d2h_h2d",
    "model.packed_weights",
    "model.deterministic_mode",  // of sums of NCCL, whose order changes with ranks anyway
    "model.pipeline_model_parallel_comm_backend",
    "model.cuda_graph_impl",  // the same bits
    "model.cuda_graph_modules",
    "model.cuda_graph_warmup_steps",
    "dist.nccl_communicator_config_path",
    "dist.use_sharp",
    "ddp.nccl_ub",
    "ddp.disable_symmetric_registration",
    "train.iterations_to_skip",
    "train.check_weight_hash_across_dp_replicas_interval",
    "train.micro_batch_size",
    "train.exit_interval",
    "train.exit_duration_in_mins",
    "train.early_stopping_patience",
    "train.nan_loss_action",
    "train.max_skipped_in_a_row",
    "train.max_skipped_rate",
    "train.exit_signals",
    "train.skip_train",
    "peft.adapter",  // where the run began; its own adapters are in its checkpoints
    "peft.lora_A_init_method",
    "peft.lora_plus_ratio",
    "optimizer.lr",
    "optimizer.min_lr",
    "optimizer.decoupled_lr",
    "optimizer.decoupled_min_lr",
    "optimizer.weight_decay",
    "optimizer.adam_beta1",
    "optimizer.adam_beta2",
    "optimizer.adam_eps",
    "optimizer.sgd_momentum",
    "optimizer.lion_beta1",
    "optimizer.lion_beta2",
    "optimizer.muon_momentum",
    "optimizer.muon_use_nesterov",
    "optimizer.muon_num_ns_steps",
    "optimizer.muon_scale_mode",
    "optimizer.muon_extra_scale_factor",
    "optimizer.adafactor_decay_rate",
    "optimizer.adafactor_clip_threshold",
    "optimizer.adafactor_eps1",
    "optimizer.adafactor_eps2",
    "optimizer.adafactor_scale_parameter",
    "optimizer.adafactor_relative_step",
    "optimizer.clip_grad",
    "optimizer.overlap_param_gather_with_optimizer_step",
    "tensor_inspect.enabled",
    "tensor_inspect.interval",
    "mixed_precision.loss_scale",
    "mixed_precision.initial_loss_scale",
    "mixed_precision.min_loss_scale",
    "mixed_precision.loss_scale_window",
    "mixed_precision.hysteresis",
    "mixed_precision.fp8_param_gather",
    "mixed_precision.fp4_param_gather",
    "mixed_precision.reuse_grad_buf_for_mxfp8_param_ag",
    "dataset.sequence_length",    // model.seq_length
    "tokenizer.tokenizer_model",  // its files are compared
    "tokenizer.vocab_size",       // model.vocab_size, dataset.eod_id
    "tokenizer.vocab_extra_ids",  // model.vocab_size
    "dataset.path_to_cache",      // where the order is kept
    "dataset.fast_cache_load",
    "dataset.defer_npy_index_mmap",
    "dataset.num_dataset_builder_threads",
    "dataset.pad_cu_seqlens",          // empty documents
    "dataset.enable_offline_packing",  // their content is in the fields above
    "dataset.offline_packing_specs",
    "dataset.packed_sequence_specs",
    "rng.seed",  // checkpoint.load_rng has its own check
};

}  // namespace

std::optional<ResumeRule> resume_rule(std::string_view name) {
  const auto* rule = std::find_if(std::begin(kRules), std::end(kRules),
                                  [&](const NamedRule& named) { return named.name == name; });
  if (rule != std::end(kRules)) return rule->rule;
  const std::string_view section = name.substr(0, name.find('.'));
  const auto is_in = [](const auto& list, std::string_view wanted) {
    return std::find(std::begin(list), std::end(list), wanted) != std::end(list);
  };
  const bool free =
      is_in(kFree, name) || is_in(kOverlapFields, name) || is_in(kFreeSections, section);
  return free ? std::optional(ResumeRule{}) : std::nullopt;
}

}  // namespace viaduct
