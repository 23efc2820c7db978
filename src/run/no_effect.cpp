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
  return when(p.recipe != "fp16_mixed",
              "mixed_precision.recipe = " + p.recipe + " has no loss scale");
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
  return when(c.mixed_precision.recipe != "bf16_mixed",
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
      {{"optimizer.store_param_remainders"}, no_remainders},
      {{"optimizer.use_precision_aware_optimizer"}, same_state_formats},
      {{"model.window_layers"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(!c.model.window_size.value(), "model.window_size is null");
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
         return when(c.offload.cpu_offloading && c.offload.cpu_offloading_num_layers == 0,
                     "model.cpu_offloading_num_layers = 0");
       }},
      {{"model.cpu_offloading_num_layers", "model.cpu_offloading_activations"},
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
         return when(!c.offload.by_layer() && !c.offload.by_module(), "nothing is offloaded");
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
      {{"ddp.overlap_param_gather", "ddp.align_param_gather"}, one_data_rank},
      {{"ddp.data_parallel_sharding_strategy", "dist.use_megatron_fsdp", "dist.use_torch_fsdp2"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return when(document_ranks(c) == 1,
                     "data-parallel ranks · context_parallel_size = 1: one shard is all");
       }},
      {{"ddp.suggested_communication_unit_size", "ddp.fsdp_double_buffer"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const std::string strategy = c.ddp.strategy();
         return when(!c.ddp.shards_weights() || document_ranks(c) == 1,
                     document_ranks(c) == 1
                         ? "data-parallel ranks · context_parallel_size = 1: one shard is all"
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

/// The configuration with one field as if nobody had given it. Nothing where that is none.
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
                                               "comm_overlap.aggregate"};

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

std::string reason_of(const RunConfig& config, const ConfigOutcome& outcome,
                      const std::string& name) {
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
