#pragma once
// The values that change from step to step, known before a step begins.

#include <cstdint>

#include "optim/schedules.h"

namespace viaduct {

struct StepInputs {
  int64_t update = 1;  // number of this update, from 1: exponent of the bias corrections
  double learning_rate = 0;
  double decoupled_learning_rate = 0;  // if the optimizer has a separate one for the vocabulary
  double weight_decay_factor = 1;      // multiplies AdamWSettings::weight_decay
  double loss_scale = 1;
};

/// The schedules' values for a step that begins after updates consumed `samples` rows; the other
/// inputs have their initial values.
StepInputs scheduled_inputs(const Schedules& schedules, int64_t samples);

}  // namespace viaduct
