#include "engine/step_inputs.h"

namespace viaduct {

StepInputs scheduled_inputs(const Schedules& schedules, int64_t samples) {
  StepInputs inputs;
  inputs.learning_rate = schedules.learning_rate.rate(samples);
  if (schedules.decoupled_rate)
    inputs.decoupled_learning_rate = schedules.decoupled_rate->rate(samples);
  inputs.weight_decay_factor = schedules.weight_decay.decay(samples);
  return inputs;
}

}  // namespace viaduct
