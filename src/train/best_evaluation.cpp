// The best evaluation of a run so far, and the early end of a run whose evaluations do not improve.

#include <fmt/format.h>

#include "base/log.h"
#include "base/units.h"
#include "checkpoint/on_all_ranks.h"
#include "checkpoint/save_folder.h"
#include "train/run_evaluations.h"

namespace viaduct {

bool RunEvaluations::forget_other_measures(const Place& place, bool rescaled) const {
  TrainState& state = place.state;
  // With another scale of its adapters it is another model.
  const bool same_loss = !rescaled && same_measure(state.validated_on, validated_on_);
  if (config_.train.skip_train) return same_loss;
  state.validated_on = validated_on_;
  if (!watched_ || !state.best) return same_loss;
  const BestEvaluation& best = *state.best;
  if (!rescaled && is_compared_with(*watched_, best)) return same_loss;
  if (rescaled) {
    place.log.note(fmt::format(
        "the best {} so far, {:.6g} of step {}, was measured with another scale of the adapters; "
        "evaluations are compared anew from here on",
        best.metric, best.value, best.step));
  } else if (best.metric != watched_->name) {
    place.log.note(
        fmt::format("the best evaluation so far was by {}; they are compared by {} from here on",
                    best.metric, watched_->name));
  } else {
    place.log.note(fmt::format(
        "the best {} so far, {:.6g} of step {}, was measured on {}; evaluations are compared anew "
        "from here on",
        best.metric, best.value, best.step,
        watched_->name == kValidationLoss
            ? "other validation data, or with other tokens of them scored"
            : "other tasks, or with fewer or more positions"));
  }
  state.best.reset();
  return same_loss;
}

void RunEvaluations::judge_evaluation(const Place& place, const EvaluationFigures& figures) const {
  TrainState& state = place.state;
  // The weights that a run begins with are no result of it.
  if (!watched_ || state.step == 0 || config_.train.skip_train) return;
  if (!judge(*watched_, figures, state.step, state.best)) return;
  place.log.note(fmt::format("step {} | best {} so far: {:.6g}", state.step, watched_->name,
                             state.best->value));
}

bool RunEvaluations::is_best_step(const TrainState& state) const {
  return config_.checkpoint.keep_best && config_.checkpoint.save && !config_.train.skip_train &&
         state.best && state.best->step == state.step;
}

bool RunEvaluations::ends_early(const TrainState& state, MetricsLog& log) const {
  if (config_.train.skip_train) return false;
  const auto& patience = config_.train.early_stopping_patience;
  if (!watched_ || !is_out_of_patience(state.best, patience)) return false;
  log.note(
      fmt::format("{} is not better than {:.6g}, of step {}, since {} "
                  "(train.early_stopping_patience={})",
                  state.best->metric, state.best->value, state.best->step,
                  counted(state.best->evaluations_since, "evaluation"), *patience));
  return true;
}

void RunEvaluations::settle_best(const TrainState& state, const RunLock* lock) const {
  const auto settle = [&] {
    if (lock == nullptr || !config_.checkpoint.keep_best || config_.train.skip_train) return;
    const std::filesystem::path& save = lock->folder();
    const std::optional<int64_t> named = best_step(save);
    const std::optional<int64_t> best = state.best ? std::optional(state.best->step) : std::nullopt;
    if (named == best) return;
    std::error_code ignored;
    if (best && std::filesystem::is_directory(save / step_folder_name(*best), ignored))
      return write_best(save, *best);
    if (best)
      log_warning("{}: the best checkpoint so far, of step {}, is not there", save.string(), *best);
    remove_best(save);
  };
  run_on_all(run_.world, settle, "naming the best checkpoint");
}

}  // namespace viaduct
