// Evaluation in the training loop: validation sets at intervals, test data at its end.

#include "base/clock.h"
#include "base/error.h"
#include "timeline/record.h"
#include "train/trainer.h"

namespace viaduct {

void Trainer::take_evaluations_before() {
  const auto& sets = data_->validation_sets();
  const bool same_loss = forget_other_measures();
  if (config_.train.skip_train) return;
  double loss = 0;
  // Evaluations are compared by what this session measures.
  const bool compared = !watched_ || (state_.best && state_.best->judged_step == state_.step);
  bool known =
      compared && same_loss && (!sets.empty() || tasks_) && (!tasks_ || log_->tasks_before());
  for (size_t i = 0; i < sets.size(); ++i) {
    const auto number = sets.size() > 1 ? std::optional(static_cast<int64_t>(i)) : std::nullopt;
    const auto before = log_->validation_before(number);
    known = known && before;
    // Every set has the same number of rows, so all have equal weight.
    loss += before.value_or(0) / static_cast<double>(sets.size());
  }
  if (world_->host().most(known ? 1 : 0) > 0) {
    evaluated_step_ = state_.step;  // an earlier session evaluated and logged it
    if (known && !sets.empty()) validations_.emplace_back(state_.step, loss);
  }
}

bool Trainer::evaluate() {
  if (evaluated_step_ == state_.step) return true;
  EvaluationFigures figures;
  if (!evaluate_data(figures) || !evaluate_tasks(figures)) return false;
  answer_prompts();
  evaluated_step_ = state_.step;
  judge_evaluation(figures);
  return true;
}

bool Trainer::evaluate_data(EvaluationFigures& figures) {
  const auto& sets = data_->validation_sets();
  double loss = 0, scored = 0;
  for (size_t i = 0; i < sets.size(); ++i) {
    ValidationMetrics metrics;
    if (sets.size() > 1) {
      metrics.set = static_cast<int64_t>(i);
      metrics.set_name = sets[i].name;
    }
    const auto result = evaluate(sets[i], std::move(metrics));
    if (!result) return false;
    loss += result->validation_loss * static_cast<double>(result->validation_tokens);
    scored += static_cast<double>(result->validation_tokens);
  }
  if (scored > 0) {
    figures[kValidationLoss] = loss / scored;
    validations_.emplace_back(state_.step, loss / scored);
  }
  return true;
}

void Trainer::test() {
  if (!data_->test_set()) return;
  const bool said = !config_.train.skip_train && log_->test_before();
  if (world_->host().most(said ? 1 : 0) > 0) return;
  ValidationMetrics metrics;
  metrics.test = true;
  const auto result = evaluate(*data_->test_set(), std::move(metrics));
  if (result && result->validation_tokens > 0) test_loss_ = result->validation_loss;
}

std::optional<ValidationMetrics> Trainer::evaluate(const EvaluationSet& set,
                                                   ValidationMetrics metrics) {
  const double begin = steady_seconds();
  std::optional<EvaluationSums> sums;
  try {
    sums = viaduct::evaluate(*engine_, set, data_->place(),
                             {.stop = [&] { return stop_requested(); }});
  } catch (const UnreadRows&) {
    if (!made_steps()) throw;
    failure_ = std::current_exception();
    failure_of_all_ = true;
  }
  if (!sums) return std::nullopt;
  metrics.step = state_.step;
  metrics.samples = state_.consumed_samples;
  metrics.tokens = state_.consumed_tokens;
  metrics.validation_tokens = static_cast<int64_t>(sums->scored);
  metrics.validation_seconds = steady_seconds() - begin;
  if (sums->scored == 0) return metrics;
  metrics.validation_loss = sums->loss / sums->scored;
  if (owns_folder()) log_->validation(metrics);
  return metrics;
}

}  // namespace viaduct
