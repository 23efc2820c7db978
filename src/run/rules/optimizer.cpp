// The optimizer, its schedules and the formats of its state.

#include <fmt/core.h>

#include "base/units.h"
#include "optim/schedules.h"
#include "run/rules/muon_boxes.h"
#include "run/rules/rules.h"
#include "run/run_length.h"

namespace viaduct {
namespace {

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

void validate_rates(const RunConfig& config, Problems& problems) {
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
}

void validate_weight_decay(const OptimizerConfig& optimizer, const SchedulerConfig& scheduler,
                           Problems& problems) {
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

std::string no_remainders(const RunConfig& c, const ConfigOutcome&) {
  const StateConfig& s = c.optimizer_state;
  if (!s.use_precision_aware_optimizer) return "optimizer.use_precision_aware_optimizer = false";
  if (s.main_params_dtype != NumberFormat::fp32)
    return stated("optimizer.main_params_dtype", s.main_params_dtype);
  return reason_if(!has_bf16_weights(c.mixed_precision),
                   recipe_without(c.mixed_precision, "BF16 weights"));
}

std::string same_state_formats(const RunConfig& c, const ConfigOutcome& outcome) {
  const StateConfig& s = c.optimizer_state;
  for (const NumberFormat format :
       {s.main_grads_dtype, s.main_params_dtype, s.exp_avg_dtype, s.exp_avg_sq_dtype})
    if (format != NumberFormat::fp32) return "";
  if (!s.store_param_remainders)
    return "every format is fp32, and optimizer.store_param_remainders = false";
  const std::string reason = no_remainders(c, outcome);
  return reason_if(!reason.empty(), "every format is fp32, and " + reason);
}

void refuse_optimizer(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  const OptimizerConfig& optimizer = config.optimizer;
  const SchedulerConfig& scheduler = config.scheduler;
  validate_rates(config, problems);
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
  validate_muon_boxes(config, problems);
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
  validate_weight_decay(optimizer, scheduler, problems);
  for (const std::string& problem : problems_of(loss_scaler_settings(config.mixed_precision)))
    problems.add_text(problem);
  if (!config.ddp.check_for_nan_in_grad && config.train.nan_loss_action == NanAction::skip &&
      !has_loss_scale(config.mixed_precision)) {
    problems.add(
        "ddp.check_for_nan_in_grad: false applies gradients that are not finite, but "
        "train.nan_loss_action = skip leaves them out");
  }
}

}  // namespace

Topic optimizer_topic() {
  std::vector<NoEffectRule> idle{
      {{"optimizer.weight_decay"},
       [](const RunConfig& c, const ConfigOutcome& outcome) {
         const double decay = c.optimizer.weight_decay;
         return reason_if(outcome.is_given("scheduler.start_weight_decay") &&
                              outcome.is_given("scheduler.end_weight_decay") &&
                              c.scheduler.start_weight_decay != decay &&
                              c.scheduler.end_weight_decay != decay,
                          "scheduler.start_weight_decay and end_weight_decay give it");
       }},
      {{"optimizer.min_lr"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.scheduler.lr_decay_style == DecayStyle::constant,
                          "scheduler.lr_decay_style = constant");
       }},
      {{"optimizer.store_param_remainders"}, no_remainders},
      {{"optimizer.use_precision_aware_optimizer"}, same_state_formats},
  };
  return {refuse_optimizer, std::move(idle)};
}

}  // namespace viaduct
