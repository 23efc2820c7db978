#include "run/validate.h"

#include "base/error.h"
#include "base/units.h"
#include "config/nearest_valid.h"
#include "data/split.h"
#include "model/family.h"
#include "model/model_fields.h"
#include "ops/cpu/cpu_ops.h"
#include "optim/schedules.h"
#include "run/adapter_setup.h"
#include "run/encoder_support.h"
#include "run/packed_weights.h"
#include "run/packing_settings.h"
#include "run/resume_rules.h"
#include "run/run_length.h"
#include "run/validate_parallel.h"
#include "run/validate_precision.h"

namespace viaduct {
namespace {

/// model.position_embedding_type, or what the family makes of auto.
PositionKind positions_of(const ModelFields& model) {
  if (!model.position_embedding_type.is_auto()) return model.position_embedding_type.value();
  ModelFields of_family;
  of_family.family = model.family;
  of_family.resolve();
  return of_family.position_embedding_type.value();
}

void validate_model(const ModelFields& model, Problems& problems) {
  const auto& heads = model.num_attention_heads;
  const auto& groups = model.num_query_groups;
  if (!heads.is_auto() && !groups.is_auto() && heads.value() % groups.value() != 0) {
    problems.add("model.num_query_groups: {} does not divide num_attention_heads = {}; nearest: {}",
                 groups.value(), heads.value(), nearest_divisor(groups.value(), heads.value()));
  }
  if (!heads.is_auto() && !model.hidden_size.is_auto() && model.kv_channels.is_auto() &&
      model.hidden_size.value() % heads.value() != 0) {
    problems.add(
        "model.num_attention_heads: {} does not divide hidden_size = {} (and kv_channels, the "
        "size of a head, is not given); nearest: {}",
        heads.value(), model.hidden_size.value(),
        nearest_divisor(heads.value(), model.hidden_size.value()));
  }
  if (!model.num_layers.is_auto() && !model.window_layers.is_auto() &&
      !model.window_layers.value().empty() &&
      static_cast<int64_t>(model.window_layers.value().size()) != model.num_layers.value()) {
    problems.add("model.window_layers: {} for {}",
                 counted(std::ssize(model.window_layers.value()), "entry", "entries"),
                 counted(model.num_layers.value(), "layer"));
  }
  const PositionKind positions = positions_of(model);
  if (model.rotary_interleaved.value_or(false)) {
    if (positions != PositionKind::rotary) {
      problems.add("model.rotary_interleaved: true, but positions are {}, which have no pairs",
                   choice_name(positions));
    } else if (!model.apply_rope_fusion) {
      problems.add(
          "model.rotary_interleaved: true, but apply_rope_fusion is false, which supports only "
          "pairs of halves");
    }
  }
  if (positions == PositionKind::learned && !model.seq_length.is_auto() &&
      !model.max_position_embeddings.is_auto() &&
      model.seq_length.value() > model.max_position_embeddings.value()) {
    problems.add("model.seq_length: {} is longer than the model's {} learned positions",
                 model.seq_length.value(), model.max_position_embeddings.value());
  }
}

double number_of(const Auto<int64_t>& value) {
  return static_cast<double>(value.value_or(1));
}

/// Sizes so large that they must be a mistake: building even the plan would take all memory or
/// would not end. Each field has its own bound; products are bounded here.
void validate_sizes(const RunConfig& config, Problems& problems) {
  // A micro-batch is built on the host; parameters and activations are counted in int64 bytes.
  constexpr double kMostTokens = 1 << 26, kMostElements = 1e16;
  constexpr double kMostLayerPasses = 1 << 21;  // of a step, which the dry run records one by one
  const ModelFields& m = config.model;
  const double rows = static_cast<double>(config.train.micro_batch_rows());
  const double tokens = rows * number_of(m.seq_length);
  if (tokens > kMostTokens) {
    problems.add(
        "train.micro_batch_size: {} of model.seq_length = {}: {:.4g} tokens at a time, at "
        "most {:.0f} are possible",
        counted(config.train.micro_batch_rows(), "row"), number_of(m.seq_length), tokens,
        kMostTokens);
  }
  const double hidden = number_of(m.hidden_size), ffn = number_of(m.ffn_hidden_size),
               heads = number_of(m.num_attention_heads) * number_of(m.kv_channels);
  const double parameters = number_of(m.num_layers) * hidden * (4 * heads + 3 * ffn) +
                            2 * number_of(m.vocab_size) * hidden;
  if (parameters > kMostElements) {
    problems.add(
        "model.num_layers, hidden_size, ffn_hidden_size, num_attention_heads · kv_channels "
        "and vocab_size: about {:.2g} parameters, at most {:.0e} can be counted",
        parameters, kMostElements);
  }
  const double passes = number_of(m.num_layers) *
                        static_cast<double>(config.train.global_batch_size) / rows /
                        static_cast<double>(config.dist.ranks);
  if (passes > kMostLayerPasses) {
    problems.add(
        "train.global_batch_size: {} in micro-batches of {}, through model.num_layers = {} on "
        "{}: {:.3g} passes through layers in a step on each rank, at most {:.0f} are planned",
        counted(config.train.global_batch_size, "row"), rows, number_of(m.num_layers),
        counted(config.dist.ranks, "rank"), passes, kMostLayerPasses);
  }
}

/// A warm-up that a decay of this length allows: a tenth of it.
int64_t shorter_warmup(int64_t decay) {
  return decay / 10;
}

void validate_schedule_in_rows(const RunConfig& config, Problems& problems) {
  const SchedulerConfig& scheduler = config.scheduler;
  if (scheduler.lr_decay_samples && scheduler.lr_decay_iters) {
    problems.add(
        "scheduler.lr_decay_samples: {} and lr_decay_iters = {} are both given: only one of them "
        "may say where the decay ends",
        *scheduler.lr_decay_samples, *scheduler.lr_decay_iters);
  }
  const int64_t warmup = scheduler.lr_warmup_samples;
  if (warmup == 0) return;
  if (scheduler.lr_warmup_iters.value_or(0) > 0 || scheduler.lr_warmup_fraction) {
    problems.add(
        "scheduler.lr_warmup_samples: {}, but lr_warmup_iters or lr_warmup_fraction is also given: "
        "only one of them may set the warm-up",
        warmup);
  }
  const BatchSchedule batches = batch_schedule(config);
  if (scheduler.lr_decay_style == DecayStyle::constant || !batches.problems().empty()) return;
  std::optional<int64_t> decay = scheduler.lr_decay_samples;
  if (!decay && !scheduler.lr_decay_iters) decay = config.train.train_samples;
  if (!decay)
    decay = batches.samples_after(scheduler.lr_decay_iters.value_or(config.train.train_iters));
  if (warmup >= *decay) {
    problems.add(
        "scheduler.lr_warmup_samples: {} is not below the {} of the decay; expected a shorter "
        "warm-up, such as scheduler.lr_warmup_samples={}",
        warmup, counted(*decay, "row"), shorter_warmup(*decay));
  }
}

void validate_decoupled_rate(const OptimizerConfig& optimizer, const SchedulerConfig& scheduler,
                             Problems& problems) {
  const auto& rate = optimizer.decoupled_lr;
  if (!rate) {
    if (optimizer.decoupled_min_lr) {
      problems.add("optimizer.decoupled_min_lr: {} needs decoupled_lr, which is null",
                   *optimizer.decoupled_min_lr);
    }
    return;
  }
  const double low = optimizer.decoupled_min_lr.value_or(optimizer.min_lr.value_or(0));
  if (low > *rate) {
    problems.add("optimizer.decoupled_min_lr: {}{} is above decoupled_lr = {}", low,
                 optimizer.decoupled_min_lr ? "" : " (of min_lr)", *rate);
  }
  if (scheduler.lr_warmup_init > *rate) {
    problems.add("scheduler.lr_warmup_init: {} is above optimizer.decoupled_lr = {}",
                 scheduler.lr_warmup_init, *rate);
  }
}

void validate_logger(const LoggerConfig& logger, Problems& problems) {
  if (!logger.log_throughput && logger.flops == CountedFlops::full)
    problems.add("logger.flops: full adds a rate, but log_throughput = false leaves rates out");
}

void validate_optimizer(const RunConfig& config, Problems& problems) {
  const OptimizerConfig& optimizer = config.optimizer;
  const SchedulerConfig& scheduler = config.scheduler;
  if (!optimizer.min_lr.is_auto() && optimizer.min_lr.value() > optimizer.lr) {
    problems.add("optimizer.min_lr: {} is above optimizer.lr = {}", optimizer.min_lr.value(),
                 optimizer.lr);
  }
  if (scheduler.lr_warmup_init > optimizer.lr) {
    problems.add("scheduler.lr_warmup_init: {} is above optimizer.lr = {}",
                 scheduler.lr_warmup_init, optimizer.lr);
  }
  if (!scheduler.lr_warmup_iters.is_auto()) {
    const int64_t warmup = scheduler.lr_warmup_iters.value();
    if (warmup > 0 && scheduler.lr_warmup_fraction) {
      problems.add(
          "scheduler.lr_warmup_fraction and lr_warmup_iters are both given: only one of them may "
          "set the warm-up");
    }
    const int64_t decay = scheduler.lr_decay_iters.value_or(config.train.train_iters);
    if (warmup > 0 && warmup >= decay && !scheduler.lr_decay_samples &&
        !config.train.train_samples && scheduler.lr_decay_style != DecayStyle::constant) {
      const char* end = scheduler.lr_decay_iters ? "scheduler.lr_decay_iters" : "train.train_iters";
      problems.add(
          "scheduler.lr_warmup_iters: {} is not below {} = {}; expected a shorter warm-up, such as "
          "scheduler.lr_warmup_iters={}, or {}={} or more",
          warmup, end, decay, shorter_warmup(decay), end, warmup + 1);
    }
  }
  for (const std::string& problem :
       state_problems(config.optimizer_state, optimizer.optimizer, config.mixed_precision.recipe,
                      config.ddp.grad_reduce_in_fp32))
    problems.add("{}", problem);
  if ((optimizer.optimizer == OptimizerKind::muon ||
       optimizer.optimizer == OptimizerKind::adafactor) &&
      config.mixed_precision.recipe == RecipeName::fp64) {
    problems.add("optimizer.optimizer: {} has FP32 arithmetic, but mixed_precision.recipe = fp64",
                 choice_name(optimizer.optimizer));
  }
  validate_schedule_in_rows(config, problems);
  validate_decoupled_rate(optimizer, scheduler, problems);
  if (scheduler.lr_decay_style == DecayStyle::warmup_stable_decay &&
      !scheduler.lr_wsd_decay_iters) {
    problems.add("scheduler.lr_wsd_decay_iters: required by lr_decay_style=WSD");
  }
  if (scheduler.use_checkpoint_opt_param_scheduler &&
      scheduler.override_opt_param_scheduler.value_or(false)) {
    problems.add(
        "scheduler.override_opt_param_scheduler: true takes the configuration's schedule at "
        "resume, and use_checkpoint_opt_param_scheduler=true the checkpoint's: set only one of "
        "them");
  }
  const double first_decay = scheduler.start_weight_decay.value_or(optimizer.weight_decay);
  const double last_decay = scheduler.end_weight_decay.value_or(optimizer.weight_decay);
  if (first_decay > last_decay) {
    problems.add("scheduler.end_weight_decay: {}{} is below start_weight_decay = {}", last_decay,
                 scheduler.end_weight_decay ? "" : " (of optimizer.weight_decay)", first_decay);
  } else if (first_decay != last_decay &&
             scheduler.weight_decay_incr_style == DecayGrowth::constant) {
    problems.add(
        "scheduler.weight_decay_incr_style: constant, but weight decay goes from {} to {}; "
        "expected linear or cosine",
        first_decay, last_decay);
  }
}

void validate_profiling(const RunConfig& config, Problems& problems) {
  const ProfilingConfig& p = config.profiling;
  if (p.profile_step_end <= p.profile_step_start) {
    problems.add("profiling.profile_step_end: {} is not above profile_step_start = {}",
                 p.profile_step_end, p.profile_step_start);
  }
  if (p.use_nsys_profiler && p.trace) {
    problems.add(
        "profiling.use_nsys_profiler and profiling.trace are both true: each would time the other; "
        "expected only one of them");
  }
  if (!p.trace && !p.record_memory_history && !p.use_nsys_profiler) return;
  if (p.profile_step_start >= config.train.train_iters) {
    problems.add(
        "profiling.profile_step_start: {} before the first recorded one, but "
        "the run ends with step {} (train.train_iters)",
        counted(p.profile_step_start, "step comes", "steps come"), config.train.train_iters);
  }
  if (p.profile_ranks.empty()) problems.add("profiling.profile_ranks: no rank is named");
  for (const int rank : p.profile_ranks) {
    if (rank >= config.dist.ranks) {
      problems.add("profiling.profile_ranks: rank {} is not one of the run's {} (0 to {})", rank,
                   config.dist.ranks, config.dist.ranks - 1);
    }
  }
}

void validate_sample_prompts(const RunConfig& config, Problems& problems) {
  if (!config.validation.sample_prompts) return;
  if (config.parallel.context_parallel_size > 1) {
    problems.add(
        "validation.sample_prompts: answers are made token by token, which "
        "model.context_parallel_size = {} cannot cut; expected 1",
        config.parallel.context_parallel_size);
  }
  if (config.parallel.encoder_pipeline_model_parallel_size > 0) {
    problems.add(
        "validation.sample_prompts: answers are made token by token, for which the encoder is on "
        "the decoder's first stage; model.encoder_pipeline_model_parallel_size is {}, expected 0",
        config.parallel.encoder_pipeline_model_parallel_size);
  }
  if (config.tensor_overlap.tp_comm_overlap.value_or(false)) {
    problems.add(
        "validation.sample_prompts: answers are made token by token, but "
        "comm_overlap.tp_comm_overlap = true needs one shape for the whole run; `auto` follows it");
  }
}

void validate_evaluation(const RunConfig& config, Problems& problems) {
  validate_sample_prompts(config, problems);
  const ValidationConfig& v = config.validation;
  const DatasetConfig& data = config.dataset;
  // A dry run needs no data set.
  if (!data.mock && !data.blend && !data.blend_per_split) return;
  const auto weighted = [](const std::optional<std::vector<std::string>>& entries) {
    try {
      return entries && parse_blend(*entries).weights.has_value();
    } catch (const ConfigError&) {
      return false;  // reported where blends are checked
    }
  };
  const auto of_split = [&](Split split) -> std::optional<std::vector<std::string>> {
    if (data.blend) return data.blend;
    if (!data.blend_per_split || data.blend_per_split->size() != kSplitCount) return std::nullopt;
    return (*data.blend_per_split)[static_cast<size_t>(split)];
  };
  if (v.multiple_validation_sets &&
      (!data.blend_per_split || !of_split(Split::valid) || weighted(of_split(Split::valid)))) {
    problems.add(
        "validation.multiple_validation_sets: true needs a list of data sets without weights as "
        "the second entry of dataset.blend_per_split");
  }
  if (v.full_validation && data.mock)
    problems.add("validation.full_validation: true, but mock data (dataset.mock) have no end");
  if (v.full_validation && (weighted(of_split(Split::valid)) || weighted(of_split(Split::test)))) {
    problems.add(
        "validation.full_validation: true reads each sample once, but a validation or test blend "
        "with weights repeats or omits samples");
  }
}

void validate_allowed_changes(const std::vector<std::string>& names, Problems& problems) {
  if (names.empty()) return;  // a search validates many configurations
  RunConfig defaults;
  const Schema schema = run_schema(defaults);
  for (const std::string& name : names) {
    const auto rule = resume_rule(schema, name);
    if (!rule || rule->change != ResumeChange::refused) {
      problems.add("checkpoint.allow_changes: {} is not a setting whose change is refused{}", name,
                   rule ? " (it may change)" : "");
    } else if (rule->other_shapes) {
      problems.add(
          "checkpoint.allow_changes: {} cannot be allowed to change: {}; start anew with another "
          "checkpoint.save",
          name, rule->effect);
    }
  }
}

}  // namespace

void validate(const RunConfig& config, const ConfigOutcome& outcome, Problems& problems) {
  validate_model(config.model, problems);
  validate_sizes(config, problems);
  validate_optimizer(config, problems);
  validate_evaluation(config, problems);
  validate_parallel(config, outcome, problems);
  validate_adapters(config, outcome, problems);
  validate_encoder(config, problems);
  validate_simulation(config, problems);
  const auto& row = config.dataset.sequence_length;
  const auto& length = config.model.seq_length;
  if (!row.is_auto() && !length.is_auto() && row.value() != length.value()) {
    problems.add("dataset.sequence_length: {} differs from model.seq_length = {}", row.value(),
                 length.value());
  }
  if (config.checkpoint.most_recent_k == 0) {
    problems.add("checkpoint.most_recent_k: expected -1 (all) or at least 1, found 0");
  }
  validate_allowed_changes(config.checkpoint.allow_changes, problems);
  validate_profiling(config, problems);
  validate_logger(config.logger, problems);
  validate_packed_weights(config, problems);
  validate_packing(config, problems);
  validate_precision(config, problems);
  validate_attention_backend(config, problems);
  validate_graphs(config, problems);
  validate_transport(config, problems);
  for (const std::string& problem : problems_of(loss_scaler_settings(config.mixed_precision)))
    problems.add_text(problem);
  if (!config.ddp.check_for_nan_in_grad && config.train.nan_loss_action == NanAction::skip &&
      !has_loss_scale(config.mixed_precision)) {
    problems.add(
        "ddp.check_for_nan_in_grad: false applies gradients that are not finite, but "
        "train.nan_loss_action = skip leaves them out");
  }
}

}  // namespace viaduct
