#include "optim/schedules.h"

namespace viaduct {

Schedules schedules(const OptimizerConfig& optimizer, const SchedulerConfig& scheduler,
                    int64_t train_iters, int64_t global_batch_size) {
  LearningRateSettings settings;
  settings.style = decay_style(scheduler.lr_decay_style);
  settings.anneal = anneal_style(scheduler.lr_wsd_decay_style);
  settings.maximum_rate = optimizer.lr;
  settings.minimum_rate = optimizer.min_lr.value();
  settings.initial_rate = scheduler.lr_warmup_init;
  settings.warmup_iterations = scheduler.lr_warmup_iters.value();
  settings.warmup_fraction = scheduler.lr_warmup_fraction;
  settings.decay_iterations = scheduler.lr_decay_iters.value();
  settings.anneal_iterations = scheduler.lr_wsd_decay_iters.value_or(0);
  return {learning_rate_schedule(settings, global_batch_size),
          weight_decay_schedule(
              decay_growth(scheduler.weight_decay_incr_style), scheduler.start_weight_decay.value(),
              scheduler.end_weight_decay.value(), train_iters, global_batch_size)};
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
