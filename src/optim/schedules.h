#pragma once
// From the typed configuration to the plain values that a training loop evaluates.

#include <cstdint>

#include "optim/learning_rate.h"
#include "optim/loss_scaler.h"
#include "optim/optimizer_config.h"
#include "precision/precision_config.h"

namespace viaduct {

/// What moves over a run: both are functions of the samples of successful updates.
struct Schedules {
  LearningRateSchedule learning_rate;
  /// Of embedding and output layer, where they have their own (optimizer.decoupled_lr).
  std::optional<LearningRateSchedule> decoupled_rate;
  WeightDecaySchedule weight_decay;

  bool operator==(const Schedules&) const = default;
};

/// Both configurations resolved (no `auto`, no null that has a default). Weight decay grows over
/// `train_iters`, as in Megatron; `batches` says how many samples steps are. ConfigError with the
/// first schedule's problems.
Schedules schedules(const OptimizerConfig& optimizer, const SchedulerConfig& scheduler,
                    int64_t train_iters, const BatchSchedule& batches);

/// A null `loss_scale` is dynamic. Only FP16 recipes use a scaler.
LossScalerSettings loss_scaler_settings(const PrecisionConfig& precision);

}  // namespace viaduct
