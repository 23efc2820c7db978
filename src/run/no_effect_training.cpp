// Fields of the model, the optimizer, the schedule, the data, checkpoints and profiles that have no
// effect.

#include <algorithm>

#include "base/error.h"
#include "run/graph_config.h"
#include "run/no_effect_rules.h"
#include "run/parallel_settings.h"

namespace viaduct {
namespace {

std::string no_blend(const RunConfig& c, const ConfigOutcome&) {
  return c.dataset.mock ? "dataset.mock = true"
                        : reason_if(!c.dataset.blend, "dataset.blend is null");
}

std::string no_conversations(const RunConfig& c, const ConfigOutcome&) {
  if (c.dataset.mock) return "dataset.mock = true: there are no conversations";
  return reason_if(!c.dataset.packing.conversations,
                   "no data set has a mask (PREFIX.mask.idx, by viaduct data chat)");
}

bool warms_up(const SchedulerConfig& s) {
  return s.lr_warmup_iters.value() > 0 || s.lr_warmup_fraction.value_or(0) > 0;
}

/// Why flash kernels compute all attention in spite of attention_backend=fused.
std::string no_library_attention(const RunConfig& c, const ConfigOutcome&) {
  const ModelFields& m = c.model;
  if (m.attention_backend.value() != AttentionBackend::fused) return "";
  const auto without = [](std::string_view what) {
    return fmt::format("cuDNN computes no attention with {} here, flash kernels do", what);
  };
  if (m.attention_dropout.value() > 0) return without("model.attention_dropout");
  if (m.attn_logit_softcapping.value()) return without("model.attn_logit_softcapping");
  return reason_if(m.window_size.value() && m.window_layers.value().empty(),
                   without("model.window_size on every layer"));
}

std::string position_type(const RunConfig& c) {
  return stated("model.position_embedding_type", c.model.position_embedding_type.value());
}

bool constant_rate(const RunConfig& c) {
  return c.scheduler.lr_decay_style == DecayStyle::constant;
}

}  // namespace

const std::vector<NoEffectRule>& training_without_effect() {
  static const std::vector<NoEffectRule> kRules{
      {{"model.attention_backend"}, no_library_attention},
      {{"model.rotary_base", "model.rotary_percent", "model.rope_scaling",
        "model.apply_rope_fusion", "model.no_rope_freq"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.model.position_embedding_type.value() != PositionKind::rotary,
                          position_type(c));
       }},
      {{"model.relative_attention_num_buckets", "model.relative_attention_max_distance"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.model.position_embedding_type.value() != PositionKind::relative,
                          position_type(c));
       }},
      {{"model.read_images"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.model.vision.folder_takes_images,
                          "the model comes from no folder whose layers for images are implemented");
       }},
      {{"model.freeze_language_model", "model.freeze_vision_model",
        "model.freeze_vision_projection"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.model.vision.reads, "the model reads no images");
       }},
      {{"model.encoder_seq_length"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.model.encoder.encoder_num_layers.value() == 0,
                          "model.encoder_num_layers = 0");
       }},
      {{"model.rope_scaling"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const Value& scaling = c.model.rope_scaling.value();
         const Value* type = scaling.find("rope_type");
         if (type == nullptr) type = scaling.find("type");
         return reason_if(
             type != nullptr && type->is_plain("dynamic") && scaling.find("alpha") == nullptr,
             "rows have at most model.max_position_embeddings tokens, and dynamic "
             "scaling begins behind them");
       }},
      {{"model.attention_temperature_length"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.model.attention_temperature_scale.value(),
                          "model.attention_temperature_scale is null");
       }},
      {{"model.qk_layernorm_after_rope"},
       [](const RunConfig& c, const ConfigOutcome&) {
         if (c.model.position_embedding_type.value() != PositionKind::rotary)
           return position_type(c);
         return reason_if(!c.model.qk_layernorm.value(), "model.qk_layernorm = false");
       }},
      {{"model.qk_layernorm_own_weights"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.model.qk_layernorm.value(), "model.qk_layernorm = false");
       }},
      {{"model.layernorm_bias"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const NormKind kind = c.model.normalization.value();
         return reason_if(kind != NormKind::layer_norm, stated("model.normalization", kind));
       }},
      {{"model.parallel_block_shared_norm"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.model.pre_sublayer_norm.value(), "model.pre_sublayer_norm = false");
       }},
      {{"model.window_rotary_base"},
       [](const RunConfig& c, const ConfigOutcome&) {
         if (c.model.position_embedding_type.value() != PositionKind::rotary)
           return position_type(c);
         return reason_if(!c.model.window_size.value(), "model.window_size is null");
       }},
      {{"model.q_lora_rank", "model.kv_lora_rank", "model.qk_head_dim", "model.qk_pos_emb_head_dim",
        "model.v_head_dim", "model.latent_layernorm_epsilon"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.model.latent.multi_latent_attention.value(),
                          "model.multi_latent_attention = false");
       }},
      {{"model.cuda_graph_impl"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const bool each_step = c.tensor_inspect.enabled && c.tensor_inspect.interval == 1 &&
                                c.logger.log_interval == 1 &&
                                precision_recipe(c.mixed_precision).products.any();
         if (each_step && (captures_steps(c) || captures_layers(c)))
           return std::string("each step measures its operands (tensor_inspect), without graphs");
         return reason_if(c.graph.cuda_graph_impl != GraphCapture::none && !captures_steps(c) &&
                              !captures_layers(c),
                          stated("dist.device", c.dist.device.value()) + " launches no kernels");
       }},
      {{"model.cuda_graph_modules"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.graph.cuda_graph_modules.empty() && !captures_layers(c),
                          stated("dist.device", c.dist.device.value()) + " launches no kernels");
       }},
      {{"model.cuda_graph_warmup_steps"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!captures_steps(c) && !captures_layers(c),
                          "nothing is captured (model.cuda_graph_impl)");
       }},
      {{"optimizer.adam_beta1", "optimizer.adam_beta2", "optimizer.adam_eps"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.optimizer.optimizer != OptimizerKind::adam &&
                              c.optimizer.optimizer != OptimizerKind::muon,
                          stated("optimizer.optimizer", c.optimizer.optimizer));
       }},
      {{"optimizer.sgd_momentum"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.optimizer.optimizer != OptimizerKind::sgd,
                          stated("optimizer.optimizer", c.optimizer.optimizer));
       }},
      {{"optimizer.lion_beta1", "optimizer.lion_beta2"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.optimizer.optimizer != OptimizerKind::lion,
                          stated("optimizer.optimizer", c.optimizer.optimizer));
       }},
      {{"optimizer.muon_momentum", "optimizer.muon_use_nesterov", "optimizer.muon_num_ns_steps",
        "optimizer.muon_scale_mode", "optimizer.muon_extra_scale_factor"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.optimizer.optimizer != OptimizerKind::muon,
                          stated("optimizer.optimizer", c.optimizer.optimizer));
       }},
      {{"optimizer.adafactor_decay_rate", "optimizer.adafactor_clip_threshold",
        "optimizer.adafactor_eps1", "optimizer.adafactor_scale_parameter",
        "optimizer.adafactor_relative_step"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.optimizer.optimizer != OptimizerKind::adafactor,
                          stated("optimizer.optimizer", c.optimizer.optimizer));
       }},
      {{"optimizer.adafactor_eps2"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.optimizer.optimizer != OptimizerKind::adafactor ||
                              !c.optimizer.adafactor_scale_parameter,
                          c.optimizer.optimizer != OptimizerKind::adafactor
                              ? stated("optimizer.optimizer", c.optimizer.optimizer)
                              : std::string("optimizer.adafactor_scale_parameter = false"));
       }},
      {{"model.alibi_bias_max", "model.alibi_scaled"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.model.position_embedding_type.value() != PositionKind::linear_bias,
                          position_type(c));
       }},
      {{"model.attention_chunk_layers"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.model.attention_chunk_size.value(),
                          "model.attention_chunk_size is null");
       }},
      {{"model.no_rope_temperature_scale"},
       [](const RunConfig& c, const ConfigOutcome&) {
         if (c.model.position_embedding_type.value() != PositionKind::rotary)
           return position_type(c);
         const std::vector<int64_t>& layers = c.model.no_rope_freq.value();
         return reason_if(std::ranges::find(layers, 1) == layers.end(),
                          "model.no_rope_freq has no layer without rotary positions");
       }},
      {{"model.no_rope_temperature_length"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.model.no_rope_temperature_scale.value(),
                          "model.no_rope_temperature_scale is null");
       }},
      {{"model.window_layers"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.model.window_size.value(), "model.window_size is null");
       }},
      {{"model.mtp_loss_scaling_factor"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.model.mtp_num_layers.value().value_or(0) == 0,
                          "model.mtp_num_layers is null");
       }},
      {{"train.max_skipped_in_a_row", "train.max_skipped_rate"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.train.nan_loss_action != NanAction::skip,
                          stated("train.nan_loss_action", c.train.nan_loss_action));
       }},
      {{"validation.eval_interval"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.validation.any(),
                          "validation.eval_iters = 0, and there are neither tasks nor prompts");
       }},
      {{"validation.tasks", "validation.sample_prompts"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.dist.simulated(), "dist.device = sim computes nothing");
       }},
      {{"validation.sample_tokens"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.validation.sample_prompts, "validation.sample_prompts is null");
       }},
      {{"train.early_stopping_patience"},
       [](const RunConfig& c, const ConfigOutcome&) {
         if (c.dist.simulated()) return std::string("dist.device = sim computes nothing");
         return reason_if(c.train.skip_train, "train.skip_train = true: nothing is trained");
       }},
      {{"checkpoint.keep_best"},
       [](const RunConfig& c, const ConfigOutcome&) {
         if (c.dist.simulated()) return std::string("dist.device = sim computes nothing");
         if (c.train.skip_train) return std::string("train.skip_train = true: nothing is saved");
         return reason_if(!c.checkpoint.save && !c.train.early_stopping_patience,
                          "checkpoint.save is null: nothing is saved");
       }},
      {{"optimizer.weight_decay"},
       [](const RunConfig& c, const ConfigOutcome& outcome) {
         const double decay = c.optimizer.weight_decay;
         return reason_if(outcome.is_given("scheduler.start_weight_decay") &&
                              outcome.is_given("scheduler.end_weight_decay") &&
                              c.scheduler.start_weight_decay != decay &&
                              c.scheduler.end_weight_decay != decay,
                          "scheduler.start_weight_decay and end_weight_decay give it");
       }},
      {{"scheduler.weight_decay_incr_style"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.scheduler.start_weight_decay == c.scheduler.end_weight_decay,
                          "weight decay is the same at start and end");
       }},
      {{"optimizer.min_lr"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(constant_rate(c), "scheduler.lr_decay_style = constant");
       }},
      {{"scheduler.lr_decay_iters"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(constant_rate(c) && !warms_up(c.scheduler),
                          "scheduler.lr_decay_style = constant, and there is no warm-up");
       }},
      {{"scheduler.lr_warmup_init"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!warms_up(c.scheduler), "there is no warm-up");
       }},
      {{"scheduler.lr_wsd_decay_style", "scheduler.lr_wsd_decay_iters"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.scheduler.lr_decay_style != DecayStyle::warmup_stable_decay,
                          stated("scheduler.lr_decay_style", c.scheduler.lr_decay_style));
       }},
      {{"dataset.split"}, no_blend},
      {{"dataset.path_to_cache", "dataset.fast_cache_load", "dataset.defer_npy_index_mmap",
        "dataset.num_dataset_builder_threads"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.dataset.mock, "dataset.mock = true: there are no indices");
       }},
      {{"dataset.fim_spm_rate", "dataset.fim_split_sample", "dataset.fim_fragment_rate",
        "dataset.fim_no_prefix", "dataset.fim_prefix_token", "dataset.fim_middle_token",
        "dataset.fim_suffix_token", "dataset.fim_pad_token", "dataset.fim_eod_token"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.dataset.fim_rate == 0, "dataset.fim_rate = 0");
       }},
      {{"dataset.masking_probability", "dataset.mean_noise_span_length",
        "dataset.short_sequence_probability"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const PackingConfig& packing = c.dataset.packing;
         if (c.model.encoder.encoder_num_layers.value() == 0)
           return std::string("model.encoder_num_layers = 0");
         if (c.dataset.mock) return std::string("dataset.mock = true: there are no texts");
         return reason_if(packing.conversations && !packing.plain,
                          "all data sets have a mask: rows are pairs");
       }},
      {{"dataset.reset_attention_mask", "dataset.reset_position_ids", "dataset.eod_mask_loss"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const PackingConfig& packing = c.dataset.packing;
         if (c.model.encoder.encoder_num_layers.value() > 0)
           return std::string("model.encoder_num_layers is not 0: rows are pairs");
         return reason_if(packing.conversations && !packing.plain,
                          "conversations are documents already, and the mask says what is scored");
       }},
      {{"dataset.packed_sequence_size", "dataset.answer_only_loss"}, no_conversations},
      {{"dataset.packing_algorithm", "dataset.packing_split", "dataset.pad_cu_seqlens",
        "dataset.pad_seq_to_mult"},
       [](const RunConfig& c, const ConfigOutcome& outcome) {
         if (!c.dataset.packing.packed_sequence_size)
           return std::string("dataset.packed_sequence_size is null: rows are not packed");
         return no_conversations(c, outcome);
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
         return reason_if(!any || c.dataset.mock, "no blend has weights");
       }},
      {{"dataset.eod_id"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const DatasetConfig& d = c.dataset;
         return reason_if(!d.reset_position_ids && !d.reset_attention_mask && !d.eod_mask_loss,
                          "no setting of section dataset looks for ends of documents");
       }},
      {{"checkpoint.save_interval", "checkpoint.most_recent_k", "checkpoint.async_save",
        "checkpoint.save_optim", "checkpoint.continue_on_save_failure"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.checkpoint.save, "checkpoint.save is null: nothing is saved");
       }},
      {{"checkpoint.fully_parallel_save"},
       [](const RunConfig& c, const ConfigOutcome&) {
         if (!c.checkpoint.save) return std::string("checkpoint.save is null: nothing is saved");
         return reason_if(data_parallel_size(c) * c.parallel.context_parallel_size == 1,
                          "one data-parallel rank has no copies to share");
       }},
      {{"profiling.profile_step_start", "profiling.profile_step_end", "profiling.profile_ranks"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const bool watched = c.profiling.use_nsys_profiler && c.dist.on_cuda();
         return reason_if(!c.profiling.trace && !c.profiling.record_memory_history && !watched,
                          "neither profiling.trace nor record_memory_history is on");
       }},
      {{"profiling.record_shapes"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.profiling.trace, "profiling.trace is off");
       }},
      {{"peft.target_modules", "peft.exclude_modules", "peft.dim", "peft.alpha", "peft.rslora",
        "peft.rank_pattern", "peft.alpha_pattern", "peft.lora_A_init_method", "peft.dropout",
        "peft.train"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.peft.adapter.has_value(), "the files of peft.adapter say it");
       }},
      {{"peft.dropout_position"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.peft.resolved.dropout == 0, "nothing is dropped (peft.dropout: 0)");
       }},
      {{"peft.base_format"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const bool same = c.peft.base_format == BaseFormat::bf16 &&
                           precision_recipe(c.mixed_precision).weight == DType::bf16;
         return reason_if(same, "the recipe's weights are in BF16");
       }},
      {{"profiling.memory_snapshot_path"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.profiling.record_memory_history,
                          "profiling.record_memory_history is off");
       }},
  };
  return kRules;
}

}  // namespace viaduct
