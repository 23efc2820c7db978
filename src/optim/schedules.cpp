#include "optim/schedules.h"

namespace viaduct {

Schedules schedules(const OptimizerConfig& optimizer, const SchedulerConfig& scheduler,
                    int64_t train_iters, const BatchSchedule& batches) {
  LearningRateSettings settings;
  settings.style = scheduler.lr_decay_style;
  settings.anneal = scheduler.lr_wsd_decay_style;
  settings.maximum_rate = optimizer.lr;
  settings.minimum_rate = optimizer.min_lr.value();
  settings.initial_rate = scheduler.lr_warmup_init;
  settings.warmup_iterations = scheduler.lr_warmup_iters.value();
  settings.warmup_fraction = scheduler.lr_warmup_fraction;
  settings.warmup_samples = scheduler.lr_warmup_samples;
  settings.decay_iterations = scheduler.lr_decay_iters.value_or(0);
  settings.decay_samples = scheduler.lr_decay_samples;
  settings.anneal_iterations = scheduler.lr_wsd_decay_iters.value_or(0);
  Schedules result{
      learning_rate_schedule(settings, batches),
      {},
      weight_decay_schedule(scheduler.weight_decay_incr_style, scheduler.start_weight_decay.value(),
                            scheduler.end_weight_decay.value(), train_iters, batches)};
  if (optimizer.decoupled_lr) {
    settings.maximum_rate = *optimizer.decoupled_lr;
    settings.minimum_rate = optimizer.decoupled_min_lr.value_or(settings.minimum_rate);
    result.decoupled_rate = learning_rate_schedule(settings, batches);
  }
  return result;
}

LossScalerSettings loss_scaler_settings(const PrecisionConfig& precision) {
  LossScalerSettings settings;
  settings.constant_scale = precision.loss_scale.value_or(0);
  settings.initial_scale = precision.initial_loss_scale;
  settings.minimum_scale = precision.min_loss_scale;
  settings.window = precision.loss_scale_window;
  settings.hysteresis = precision.hysteresis;
  return settings;
}

}  // namespace viaduct
