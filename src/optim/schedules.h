#pragma once
// Builds the schedules of a training loop from the typed configuration.

#include <cstdint>

#include "optim/learning_rate.h"
#include "optim/loss_scaler.h"
#include "optim/optimizer_config.h"
#include "precision/precision_config.h"

namespace viaduct {

/// The schedules of a run, both functions of the samples of successful updates.
struct Schedules {
  LearningRateSchedule learning_rate;
  /// For embedding and output layer, if they have their own (optimizer.decoupled_lr).
  std::optional<LearningRateSchedule> decoupled_rate;
  WeightDecaySchedule weight_decay;

  bool operator==(const Schedules&) const = default;
};

/// Both configurations resolved (no `auto`, no null that has a default). Weight decay grows over
/// `train_iters`, as in Megatron; `batches` converts steps to samples. ConfigError with the first
/// schedule's problems.
Schedules schedules(const OptimizerConfig& optimizer, const SchedulerConfig& scheduler,
                    int64_t train_iters, const BatchSchedule& batches);

/// A null `loss_scale` is dynamic. Only FP16 recipes use a scaler.
LossScalerSettings loss_scaler_settings(const PrecisionConfig& precision);

}  // namespace viaduct
