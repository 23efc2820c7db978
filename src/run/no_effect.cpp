#include "run/no_effect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "run/parallel_settings.h"

namespace viaduct {
namespace {

/// Fields that have nothing to act on where `reason` gives one; "" where they have.
struct Rule {
  std::vector<std::string_view> fields;
  std::string (*reason)(const RunConfig&, const ConfigOutcome&);
};

std::string when(bool holds, std::string reason) {
  return holds ? std::move(reason) : std::string();
}

std::string one_stage(const RunConfig& c, const ConfigOutcome&) {
  return when(c.parallel.pipeline_model_parallel_size == 1,
              "model.pipeline_model_parallel_size = 1");
}
std::string one_data_rank(const RunConfig& c, const ConfigOutcome&) {
  return when(document_ranks(c) == 1,
              "data-parallel ranks · context_parallel_size = 1: no weights are gathered");
}
std::string no_blend(const RunConfig& c, const ConfigOutcome&) {
  return c.dataset.mock ? "dataset.mock = true" : when(!c.dataset.blend, "dataset.blend is null");
}
std::string no_loss_scale(const RunConfig& c, const ConfigOutcome&) {
  const PrecisionConfig& p = c.mixed_precision;
  return when(!has_loss_scale(p), "mixed_precision.recipe = " + p.recipe + " has no loss scale");
}
std::string no_dynamic_loss_scale(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_loss_scale(c, outcome);
  return reason.empty() ? when(c.mixed_precision.loss_scale.has_value(),
                               "mixed_precision.loss_scale makes it constant")
                        : reason;
}
std::string no_remainders(const RunConfig& c, const ConfigOutcome&) {
  const StateConfig& s = c.optimizer_state;
  if (!s.use_precision_aware_optimizer) return "optimizer.use_precision_aware_optimizer = false";
  if (s.main_params_dtype != "fp32") return "optimizer.main_params_dtype = " + s.main_params_dtype;
  return when(!has_bf16_weights(c.mixed_precision),
              "mixed_precision.recipe = " + c.mixed_precision.recipe + " has no BF16 weights");
}
std::string same_state_formats(const RunConfig& c, const ConfigOutcome& outcome) {
  const StateConfig& s = c.optimizer_state;
  for (const std::string& format :
       {s.main_grads_dtype, s.main_params_dtype, s.exp_avg_dtype, s.exp_avg_sq_dtype})
    if (format != "fp32") return "";
  if (!s.store_param_remainders)
    return "every format is fp32, and optimizer.store_param_remainders = false";
  const std::string reason = no_remainders(c, outcome);
  return when(!reason.empty(), "every format is fp32, and " + reason);
}
std::string no_quantization(const RunConfig& c, const ConfigOutcome&) {
  return when(
      !precision_recipe(c.mixed_precision).products.any(),
      "mixed_precision.recipe = " + c.mixed_precision.recipe + " has no FP8 or FP4 products");
}
std::string no_fp8(const RunConfig& c, const ConfigOutcome&) {
  const Scaling scaling = precision_recipe(c.mixed_precision).products.scaling;
  return when(scaling == Scaling::none || scaling == Scaling::nvfp4,
              "mixed_precision.recipe = " + c.mixed_precision.recipe + " has no FP8 products");
}
std::string not_gathered_for_mx(const RunConfig& c, const ConfigOutcome&) {
  const Scaling scaling = precision_recipe(c.mixed_precision).products.scaling;
  if (scaling != Scaling::mx) return "the products are not those of MXFP8";
  return when(!c.mixed_precision.fp8_param_gather, "mixed_precision.fp8_param_gather is not true");
}
std::string no_own_amax(const RunConfig& c, const ConfigOutcome&) {
  const PrecisionRecipe recipe = precision_recipe(c.mixed_precision);
  return when(
      recipe.products.scaling != Scaling::tensor || recipe.amax.source == AmaxSource::history,
      "no scale is made from the tensor itself: fp8_recipe is not tensorwise");
}
std::string no_history(const RunConfig& c, const ConfigOutcome&) {
  const PrecisionRecipe recipe = precision_recipe(c.mixed_precision);
  return when(
      recipe.products.scaling != Scaling::tensor || recipe.amax.source != AmaxSource::history,
      "scales have no history: fp8_recipe is not delayed");
}
std::string no_fp4(const RunConfig& c, const ConfigOutcome&) {
  return when(precision_recipe(c.mixed_precision).products.scaling != Scaling::nvfp4,
              "mixed_precision.recipe = " + c.mixed_precision.recipe + " has no FP4 products");
}
std::string not_inspected(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_quantization(c, outcome);
  if (!reason.empty()) return reason;
  return when(!c.tensor_inspect.enabled, "tensor_inspect.enabled is not true");
}
std::string no_plain_ends(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_quantization(c, outcome);
  if (!reason.empty()) return reason;
  const PrecisionRecipe recipe = precision_recipe(c.mixed_precision);
  return when(recipe.plain_blocks_at_start == 0 && recipe.plain_blocks_at_end == 0 &&
                  !c.mixed_precision.first_last_layers_bf16.value_or(false),
              "mixed_precision.first_last_layers_bf16 is not true");
}
std::string no_experts(const RunConfig& c, const ConfigOutcome&) {
  return when(c.model.moe.experts() == 0, "model.num_moe_experts = null");
}
std::string no_balancing(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_experts(c, outcome);
  if (!reason.empty()) return reason;
  if (c.model.moe.moe_router_load_balancing_type == "sinkhorn") return {};
  return when(c.model.moe.moe_aux_loss_coeff == 0, "model.moe_aux_loss_coeff = 0");
}
std::string no_balancing_loss(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_experts(c, outcome);
  if (!reason.empty()) return reason;
  return when(c.model.moe.moe_router_load_balancing_type == "none",
              "model.moe_router_load_balancing_type = none");
}
std::string no_capacity(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_experts(c, outcome);
  if (!reason.empty()) return reason;
  return when(!c.model.moe.moe_expert_capacity_factor, "model.moe_expert_capacity_factor is null");
}
std::string no_load_bias(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_experts(c, outcome);
  if (!reason.empty()) return reason;
  return when(!c.model.moe.moe_router_enable_expert_bias.value(),
              "model.moe_router_enable_expert_bias = false");
}
std::string one_expert_rank(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_experts(c, outcome);
  if (!reason.empty()) return reason;
  return when(c.parallel.expert_model_parallel_size * c.parallel.expert_tensor() == 1,
              "model.expert_model_parallel_size · expert_tensor_parallel_size = 1: no tokens are "
              "sent");
}
std::string not_flex(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = one_expert_rank(c, outcome);
  if (!reason.empty()) return reason;
  const std::string& dispatcher = c.model.moe.moe_token_dispatcher_type;
  return when(dispatcher != "flex", "model.moe_token_dispatcher_type = " + dispatcher);
}
bool warms_up(const SchedulerConfig& s) {
  return s.lr_warmup_iters.value() > 0 || s.lr_warmup_fraction.value_or(0) > 0;
}
bool constant_rate(const RunConfig& c) {
  return c.scheduler.lr_decay_style == "constant";
}

const std::vector<Rule>& rules() {
  static const std::vector<Rule> kRules{
      {{"model.rotary_base", "model.rotary_percent", "model.rope_scaling",
        "model.apply_rope_fusion"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.model.position_embedding_type.value() != "rope",
                     "model.position_embedding_type = learned_absolute");
       }},
      {{"model.moe_ffn_hidden_size",
        "model.moe_layer_freq",
        "model.moe_shared_expert_intermediate_size",
        "model.moe_shared_expert_gate",
        "model.moe_router_topk",
        "model.moe_router_score_function",
        "model.moe_router_pre_softmax",
        "model.moe_router_topk_scaling_factor",
        "model.moe_router_num_groups",
        "model.moe_router_group_topk",
        "model.moe_router_group_score_topk",
        "model.moe_router_norm_topk_prob",
        "model.moe_router_enable_expert_bias",
        "model.moe_router_dtype",
        "model.moe_z_loss_coeff",
        "model.moe_input_jitter_eps",
        "model.moe_router_force_load_balancing",
        "model.moe_expert_capacity_factor",
        "model.moe_pad_expert_input_to_capacity",
        "model.moe_dispatch_fwd_dtype",
        "model.moe_combine_bwd_dtype",
        "model.moe_router_padding_for_quantization"},
       no_experts},
      {{"model.moe_token_dispatcher_type", "model.moe_shared_expert_overlap"}, one_expert_rank},
      {{"model.moe_flex_dispatcher_backend"}, not_flex},
      {{"model.moe_token_drop_policy"}, no_capacity},
      {{"model.moe_router_bias_update_rate"}, no_load_bias},
      {{"model.moe_router_load_balancing_type"}, no_balancing},
      {{"model.moe_aux_loss_coeff"}, no_balancing_loss},
      {{"optimizer.adam_beta1", "optimizer.adam_beta2", "optimizer.adam_eps"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.optimizer.optimizer != "adam" && c.optimizer.optimizer != "muon",
                     "optimizer.optimizer = " + c.optimizer.optimizer);
       }},
      {{"optimizer.sgd_momentum"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.optimizer.optimizer != "sgd",
                     "optimizer.optimizer = " + c.optimizer.optimizer);
       }},
      {{"optimizer.lion_beta1", "optimizer.lion_beta2"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.optimizer.optimizer != "lion",
                     "optimizer.optimizer = " + c.optimizer.optimizer);
       }},
      {{"optimizer.muon_momentum", "optimizer.muon_use_nesterov", "optimizer.muon_num_ns_steps",
        "optimizer.muon_scale_mode", "optimizer.muon_extra_scale_factor"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.optimizer.optimizer != "muon",
                     "optimizer.optimizer = " + c.optimizer.optimizer);
       }},
      {{"optimizer.adafactor_decay_rate", "optimizer.adafactor_clip_threshold",
        "optimizer.adafactor_eps1", "optimizer.adafactor_scale_parameter",
        "optimizer.adafactor_relative_step"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.optimizer.optimizer != "adafactor",
                     "optimizer.optimizer = " + c.optimizer.optimizer);
       }},
      {{"optimizer.adafactor_eps2"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.optimizer.optimizer != "adafactor" || !c.optimizer.adafactor_scale_parameter,
                     c.optimizer.optimizer != "adafactor"
                         ? "optimizer.optimizer = " + c.optimizer.optimizer
                         : "optimizer.adafactor_scale_parameter = false");
       }},
      {{"mixed_precision.fp8_recipe", "mixed_precision.fp8_param_gather"}, no_fp8},
      {{"mixed_precision.reuse_grad_buf_for_mxfp8_param_ag"}, not_gathered_for_mx},
      {{"mixed_precision.fp8_dot_product_attention", "mixed_precision.fp8_multi_head_attention"},
       no_quantization},
      {{"mixed_precision.fp4_recipe"}, no_fp4},
      {{"mixed_precision.fp8_wgrad", "mixed_precision.first_last_layers_bf16",
        "mixed_precision.layers_in_bf16", "tensor_inspect.enabled"},
       no_quantization},
      {{"tensor_inspect.interval"}, not_inspected},
      {{"mixed_precision.fp8_local_amax"}, no_own_amax},
      {{"mixed_precision.tp_only_amax_red", "mixed_precision.fp8_margin",
        "mixed_precision.fp8_amax_history_len", "mixed_precision.fp8_amax_compute_algo"},
       no_history},
      {{"mixed_precision.num_layers_at_start_in_bf16", "mixed_precision.num_layers_at_end_in_bf16"},
       no_plain_ends},
      {{"optimizer.store_param_remainders"}, no_remainders},
      {{"optimizer.use_precision_aware_optimizer"}, same_state_formats},
      {{"model.window_layers"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(!c.model.window_size.value(), "model.window_size is null");
       }},
      {{"model.mtp_loss_scaling_factor"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.model.mtp_num_layers.value().value_or(0) == 0,
                     "model.mtp_num_layers is null");
       }},
      {{"model.make_vocab_size_divisible_by"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.parallel.tensor_model_parallel_size == 1,
                     "model.tensor_model_parallel_size = 1");
       }},
      {{"model.cp_comm_type"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(
             c.parallel.context_parallel_size == 1 && !c.context_parallel.hybrid_context_parallel,
             "model.context_parallel_size = 1");
       }},
      {{"model.hybrid_context_parallel"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(document_ranks(c) == 1,
                     "data-parallel ranks · context_parallel_size = 1: documents have one rank");
       }},
      {{"model.max_seqlen_per_dp_cp_rank"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(!c.context_parallel.hybrid_context_parallel,
                     "model.hybrid_context_parallel = false");
       }},
      {{"model.account_for_embedding_in_pipeline_split", "model.account_for_loss_in_pipeline_split",
        "model.deallocate_pipeline_outputs", "model.pipeline_dtype", "model.variable_seq_lengths",
        "model.batch_p2p_comm", "comm_overlap.overlap_p2p_comm"},
       one_stage},
      {{"model.recompute_granularity"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.recompute.selective() && c.recompute.recompute_modules.empty(),
                     "model.recompute_modules is empty");
       }},
      {{"model.recompute_method", "model.recompute_num_layers"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(!c.recompute.full(), "model.recompute_granularity is not full");
       }},
      {{"model.recompute_modules"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(!c.recompute.selective(), "model.recompute_granularity is not selective");
       }},
      {{"model.distribute_saved_activations"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.parallel.tensor_model_parallel_size == 1,
                     "model.tensor_model_parallel_size = 1");
       }},
      {{"model.num_microbatches_with_partial_activation_checkpoints"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const auto& number = c.recompute.num_microbatches_with_partial_activation_checkpoints;
         return when(c.parallel.pipeline_model_parallel_size == 1 && number.value_or(0) > 0 &&
                         c.pipeline.pipeline_schedule == "1f1b",
                     "one pipeline stage holds one micro-batch at a time");
       }},
      {{"model.cpu_offloading"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.offload.cpu_offloading && c.offload.cpu_offloading_num_layers == 0 &&
                         !c.offload.cpu_offloading_weights,
                     "model.cpu_offloading_num_layers = 0");
       }},
      {{"model.cpu_offloading_num_layers", "model.cpu_offloading_activations",
        "model.cpu_offloading_weights"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(!c.offload.cpu_offloading, "model.cpu_offloading is off");
       }},
      {{"model.offload_modules", "model.min_offloaded_tensor_size"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(!c.offload.fine_grained_activation_offloading,
                     "model.fine_grained_activation_offloading is off");
       }},
      {{"memory.offload_path", "memory.offload_bytes"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(!c.offload.by_layer() && !c.offload.by_module() &&
                         c.state_offload.fraction() == 0 && !c.offload.moves_weights(),
                     "nothing is offloaded");
       }},
      {{"optimizer.optimizer_cpu_offload"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.state_offload.optimizer_cpu_offload && c.state_offload.fraction() == 0,
                     "optimizer.optimizer_offload_fraction = 0");
       }},
      {{"optimizer.optimizer_offload_fraction"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(!c.state_offload.optimizer_cpu_offload,
                     "optimizer.optimizer_cpu_offload is off");
       }},
      {{"optimizer.overlap_cpu_optimizer_d2h_h2d"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.state_offload.fraction() == 0, "no optimizer state is offloaded");
       }},
      {{"dist.use_tp_pp_dp_mapping"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const bool one =
             c.parallel.pipeline_model_parallel_size == 1 || data_parallel_size(c) == 1;
         return when(one, "with one pipeline stage or one data rank both orders are the same");
       }},
      {{"dist.align_grad_reduce"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.pipeline.virtual_stages() == 1, "there are no virtual pipeline stages");
       }},
      {{"comm_overlap.wgrad_deferral_limit"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(!c.pipeline.defer_embedding_wgrad_compute,
                     "comm_overlap.defer_embedding_wgrad_compute is off");
       }},
      {{"comm_overlap.overlap_moe_expert_parallel_comm"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.parallel.pipeline_model_parallel_size == 1 && micro_batches(c) == 1,
                     "a step has one micro-batch, and no other one to compute meanwhile");
       }},
      {{"ddp.overlap_param_gather", "ddp.align_param_gather"}, one_data_rank},
      {{"ddp.data_parallel_sharding_strategy", "dist.use_megatron_fsdp", "dist.use_torch_fsdp2"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(document_ranks(c) == 1,
                     "data-parallel ranks · context_parallel_size = 1: one shard is all");
       }},
      {{"model.tensor_parallel_num_weight_shards"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(
             c.ddp.tensor_parallel_num_weight_shards == c.parallel.tensor_model_parallel_size,
             "it is model.tensor_model_parallel_size");
       }},
      {{"ddp.megatron_fsdp_grad_comm_dtype"},
       [](const RunConfig& c, const ConfigOutcome&) {
         if (document_ranks(c) == c.ddp.num_distributed_optimizer_instances)
           return std::string("an optimizer instance has one rank: nothing is reduce-scattered");
         const bool fp32 = c.ddp.megatron_fsdp_grad_comm_dtype == "fp32";
         return when(fp32 == c.ddp.grad_reduce_in_fp32, "main gradients have this format");
       }},
      {{"ddp.suggested_communication_unit_size", "ddp.fsdp_double_buffer"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const std::string strategy = c.ddp.strategy();
         const bool one = document_ranks(c) == 1 && !c.offload.moves_weights();
         return when(!c.ddp.shards_weights() || one,
                     one ? "data-parallel ranks · context_parallel_size = 1: one shard is all"
                         : "ddp.data_parallel_sharding_strategy = " + strategy +
                               ": no layers are gathered for their use");
       }},
      {{"ddp.bucket_size", "ddp.num_buckets"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.ddp.shards_gradients() && document_ranks(c) > 1,
                     "ddp.data_parallel_sharding_strategy = " + c.ddp.strategy() +
                         ": each layer is a bucket");
       }},
      {{"ddp.grad_reduce_in_fp32"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const std::string& recipe = c.mixed_precision.recipe;
         return when(recipe == "fp32" || recipe == "fp64",
                     "mixed_precision.recipe = " + recipe + " has no narrower weights");
       }},
      {{"train.max_skipped_in_a_row", "train.max_skipped_rate"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.train.nan_loss_action != "skip",
                     "train.nan_loss_action = " + c.train.nan_loss_action);
       }},
      {{"validation.eval_interval"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.validation.eval_iters == 0, "validation.eval_iters = 0");
       }},
      {{"optimizer.weight_decay"},
       [](const RunConfig& c, const ConfigOutcome& outcome) {
         const double decay = c.optimizer.weight_decay;
         return when(outcome.is_given("scheduler.start_weight_decay") &&
                         outcome.is_given("scheduler.end_weight_decay") &&
                         c.scheduler.start_weight_decay != decay &&
                         c.scheduler.end_weight_decay != decay,
                     "scheduler.start_weight_decay and end_weight_decay say it");
       }},
      {{"scheduler.weight_decay_incr_style"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.scheduler.start_weight_decay == c.scheduler.end_weight_decay,
                     "weight decay is the same at start and end");
       }},
      {{"optimizer.min_lr"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(constant_rate(c), "scheduler.lr_decay_style = constant");
       }},
      {{"scheduler.lr_decay_iters"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(constant_rate(c) && !warms_up(c.scheduler),
                     "scheduler.lr_decay_style = constant, and there is no warm-up");
       }},
      {{"scheduler.lr_warmup_init"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(!warms_up(c.scheduler), "there is no warm-up");
       }},
      {{"scheduler.lr_wsd_decay_style", "scheduler.lr_wsd_decay_iters"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.scheduler.lr_decay_style != "WSD",
                     "scheduler.lr_decay_style = " + c.scheduler.lr_decay_style);
       }},
      {{"mixed_precision.loss_scale"}, no_loss_scale},
      {{"mixed_precision.initial_loss_scale", "mixed_precision.min_loss_scale",
        "mixed_precision.loss_scale_window", "mixed_precision.hysteresis"},
       no_dynamic_loss_scale},
      {{"dataset.split"}, no_blend},
      {{"dataset.path_to_cache", "dataset.fast_cache_load", "dataset.defer_npy_index_mmap",
        "dataset.num_dataset_builder_threads"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.dataset.mock, "dataset.mock = true: there are no indices");
       }},
      {{"dataset.fim_spm_rate", "dataset.fim_split_sample", "dataset.fim_fragment_rate",
        "dataset.fim_no_prefix", "dataset.fim_prefix_token", "dataset.fim_middle_token",
        "dataset.fim_suffix_token", "dataset.fim_pad_token", "dataset.fim_eod_token"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(c.dataset.fim_rate == 0, "dataset.fim_rate = 0");
       }},
      {{"dataset.mid_level_dataset_surplus"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const auto weighted = [](const auto& blend) {
           return blend && parse_blend(*blend).weights.has_value();
         };
         bool any = weighted(c.dataset.blend);
         if (c.dataset.blend_per_split) {
           for (const auto& blend : *c.dataset.blend_per_split) any = any || weighted(blend);
         }
         return when(!any || c.dataset.mock, "no blend has weights");
       }},
      {{"dataset.eod_id"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const DatasetConfig& d = c.dataset;
         return when(!d.reset_position_ids && !d.reset_attention_mask && !d.eod_mask_loss,
                     "nothing of section dataset looks for ends of documents");
       }},
      {{"checkpoint.save_interval", "checkpoint.most_recent_k", "checkpoint.async_save",
        "checkpoint.save_optim", "checkpoint.continue_on_save_failure"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(!c.checkpoint.save, "checkpoint.save is null: nothing is saved");
       }},
      {{"profiling.profile_step_start", "profiling.profile_step_end", "profiling.profile_ranks"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(!c.profiling.trace && !c.profiling.record_memory_history,
                     "neither profiling.trace nor record_memory_history is on");
       }},
      {{"profiling.record_shapes"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(!c.profiling.trace, "profiling.trace is off");
       }},
      {{"profiling.memory_snapshot_path"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(!c.profiling.record_memory_history, "profiling.record_memory_history is off");
       }},
  };
  return kRules;
}

/// The configuration as if one field had not been given. Nothing if that is not valid.
std::optional<RunConfig> without(const RunConfig& config, const std::string& name) {
  RunConfig fresh, other = config;
  // The value that a member has when its group is made is the field's default.
  const Value default_value = run_schema(fresh).find(name)->default_value;
  if (!run_schema(other).find(name)->assign(default_value)) return std::nullopt;
  try {
    resolve(other);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
  return other;
}

Value value_of(RunConfig config, const std::string& name) {
  return run_schema(config).find(name)->current();
}

GemmOverlapTable overlap_table(const RunConfig& config) {
  Problems said;  // by validate
  return resolve_gemm_overlap(
      config.tensor_overlap,
      {config.parallel.tensor_model_parallel_size, config.model.hidden_size.value()}, said);
}

constexpr std::string_view kOverlapFields[] = {"model.tp_comm_bulk_dgrad",
                                               "model.tp_comm_bulk_wgrad",
                                               "model.tp_comm_overlap_ag",
                                               "model.tp_comm_overlap_rs",
                                               "model.tp_comm_overlap_rs_dgrad",
                                               "model.tp_comm_overlap_disable_qkv",
                                               "model.tp_comm_overlap_disable_fc1",
                                               "comm_overlap.tp_comm_overlap_cfg",
                                               "comm_overlap.method",
                                               "comm_overlap.num_splits",
                                               "comm_overlap.aggregate",
                                               "comm_overlap.fp8_buf"};

/// Whether the table of GEMMs is the same without this one of its fields, and why.
std::string same_overlap(const RunConfig& config, const std::string& name) {
  if (std::find(std::begin(kOverlapFields), std::end(kOverlapFields), name) ==
      std::end(kOverlapFields))
    return "";
  if (config.parallel.tensor_model_parallel_size == 1)
    return "model.tensor_model_parallel_size = 1";
  if (!config.tensor_overlap.tp_comm_overlap.value()) return "comm_overlap.tp_comm_overlap is off";
  const auto other = without(config, name);
  return when(other && overlap_table(*other) == overlap_table(config),
              "each GEMM that allows it does the same without it");
}

constexpr std::string_view kOfValues[] = {
    "train.exit_interval",       "train.exit_duration_in_mins",
    "train.nan_loss_action",     "train.max_skipped_in_a_row",
    "train.max_skipped_rate",    "train.skip_train",
    "train.iterations_to_skip",  "train.check_weight_hash_across_dp_replicas_interval",
    "train.exit_signals",        "dist.threads_per_rank",
    "dist.distributed_timeout_minutes"};
constexpr std::string_view kInVirtualTime[] = {
    "checkpoint.save",     "checkpoint.pretrained_checkpoint", "dataset.sequence_length",
    "logger.log_interval", "logger.log_throughput",            "logger.tensorboard_dir",
    "logger.flops"};
constexpr std::string_view kSectionsOfValues[] = {
    "checkpoint.", "dataset.", "logger.", "validation.", "profiling.", "rng.", "tensor_inspect."};

/// Fields of a run that computes something, reads data or saves, which in virtual time have nothing
/// to act on.
bool needs_values(const std::string& name) {
  const auto is = [&](std::string_view other) { return name == other; };
  if (std::any_of(std::begin(kInVirtualTime), std::end(kInVirtualTime), is)) return false;
  return std::any_of(std::begin(kOfValues), std::end(kOfValues), is) ||
         std::any_of(std::begin(kSectionsOfValues), std::end(kSectionsOfValues),
                     [&](std::string_view section) { return name.starts_with(section); });
}

std::string reason_of(const RunConfig& config, const ConfigOutcome& outcome,
                      const std::string& name) {
  if (name == "dist.cluster")
    return when(!config.dist.simulated(),
                "dist.device = " + config.dist.device.value_or("cpu") + ", not sim");
  if (config.dist.simulated() && needs_values(name))
    return "dist.device = sim: nothing is computed, read or saved";
  for (const Rule& rule : rules()) {
    if (std::find(rule.fields.begin(), rule.fields.end(), name) != rule.fields.end())
      return rule.reason(config, outcome);
  }
  return same_overlap(config, name);
}

}  // namespace

std::vector<std::string> settings_without_effect(const RunConfig& config,
                                                 const ConfigOutcome& outcome) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;  // and their fields
  for (const auto& [name, value] : outcome.given) {
    const std::string reason = reason_of(config, outcome, name);
    if (reason.empty()) continue;
    const auto other = without(config, name);
    if (other && same_value(value_of(*other, name), value_of(config, name))) continue;
    auto at = std::find_if(reasons.begin(), reasons.end(),
                           [&](const auto& known) { return known.first == reason; });
    if (at == reasons.end()) at = reasons.insert(at, {reason, {}});
    at->second.push_back(name);
  }
  std::vector<std::string> lines;
  for (const auto& [reason, names] : reasons) {
    lines.push_back(fmt::format("{} {} no effect here: {}", fmt::join(names, ", "),
                                names.size() == 1 ? "has" : "have", reason));
  }
  return lines;
}

}  // namespace viaduct
