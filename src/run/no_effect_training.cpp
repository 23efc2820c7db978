// Fields of the optimizer, of checkpoints and of evaluation that have no effect.

#include "run/no_effect_rules.h"
#include "run/parallel_settings.h"

namespace viaduct {

const std::vector<NoEffectRule>& training_without_effect() {
  static const std::vector<NoEffectRule> kRules{
      {{"validation.tasks", "validation.sample_prompts"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(c.dist.simulated(), "dist.device = sim computes nothing");
       }},
      {{"train.early_stopping_patience"},
       [](const RunConfig& c, const ConfigOutcome&) {
         if (c.dist.simulated()) return std::string("dist.device = sim computes nothing");
         return reason_if(c.train.skip_train, "train.skip_train = true: nothing is trained");
       }},
      {{"train.check_weight_hash_across_dp_replicas_interval"},
       [](const RunConfig& c, const ConfigOutcome&) {
         // Experts that are not cut over the tensor ranks have copies there.
         const bool copies_of_experts =
             c.model.moe.experts() > 0 && c.parallel.tensor_model_parallel_size > 1;
         return reason_if(
             document_ranks(c) == 1 && !copies_of_experts,
             "data-parallel ranks · context_parallel_size = 1: weights have no copies");
       }},
      {{"checkpoint.keep_best"},
       [](const RunConfig& c, const ConfigOutcome&) {
         if (c.dist.simulated()) return std::string("dist.device = sim computes nothing");
         if (c.train.skip_train) return std::string("train.skip_train = true: nothing is saved");
         return reason_if(!c.checkpoint.save && !c.train.early_stopping_patience,
                          "checkpoint.save is null: nothing is saved");
       }},
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
      {{"checkpoint.fully_parallel_save"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(data_parallel_size(c) * c.parallel.context_parallel_size == 1,
                          "one data-parallel rank has no copies to share");
       }},
  };
  return kRules;
}

}  // namespace viaduct
