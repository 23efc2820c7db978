#include "train/engine_settings.h"

namespace viaduct {

AdamWSettings adamw_settings(const OptimizerConfig& c) {
  // The decay itself comes with each step: its schedule need not start from optimizer.weight_decay.
  return {c.adam_beta1, c.adam_beta2, c.adam_eps, 1, c.decoupled_lr.has_value()};
}

StepInputs scheduled_inputs(const Schedules& schedules, int64_t samples) {
  StepInputs inputs;
  inputs.learning_rate = schedules.learning_rate.rate(samples);
  if (schedules.decoupled_rate)
    inputs.decoupled_learning_rate = schedules.decoupled_rate->rate(samples);
  inputs.weight_decay_factor = schedules.weight_decay.decay(samples);
  return inputs;
}

void place_rank(const Layout& layout, GlobalRank rank, EngineSettings& settings) {
  settings.place = model_place(layout, rank);
  settings.overlap = layout.overlap;
  settings.calculate_per_token_loss = layout.calculate_per_token_loss;
  settings.ddp = layout.ddp;
  settings.schedule = layout.schedule;
  settings.executor = layout.executor;
  settings.fusions = layout.fusions;
  settings.recompute_logits = layout.recompute_logits;
  settings.saved_policy = layout.saved_policy;
  settings.packed_weights = layout.packed_weights;
  settings.message_format = layout.message_format;
}

EngineSettings engine_settings(const RunSetup& setup, const Layout& layout, GlobalRank rank) {
  const RunConfig& c = setup.config;
  EngineSettings s;
  s.precision = precision_recipe(c.mixed_precision);
  s.optimizer = adamw_settings(c.optimizer);
  s.clip_norm = c.optimizer.clip_grad;
  if (c.train.skip_train) s.purpose = EnginePurpose::evaluate;
  s.seed = static_cast<uint64_t>(c.rng.seed);
  s.positions = c.model.seq_length.value();
  place_rank(layout, rank, s);
  return s;
}

EngineSettings engine_settings(const RunSetup& setup) {
  return engine_settings(setup, single_rank_layout(setup.model), {0});
}

}  // namespace viaduct
