#pragma once
// What changes from step to step, known before a step begins.

#include <cstdint>

#include "optim/schedules.h"

namespace viaduct {

struct StepInputs {
  int64_t update = 1;  // number of this update, from 1: exponent of the bias corrections
  double learning_rate = 0;
  double decoupled_learning_rate = 0;  // where the optimizer has one of its own for the vocabulary
  double weight_decay_factor = 1;      // multiplies AdamWSettings::weight_decay
  double loss_scale = 1;
};

/// What the schedules give a step that begins when `samples` rows are consumed by updates; the
/// rest of the inputs is as in no step before.
StepInputs scheduled_inputs(const Schedules& schedules, int64_t samples);

}  // namespace viaduct
