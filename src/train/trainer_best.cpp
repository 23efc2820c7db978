// Tasks and prompts at the evaluations of the training loop, the best evaluation so far, and the
// early end of a run whose evaluations do not improve.

#include <fmt/format.h>

#include <sstream>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "checkpoint/on_all_ranks.h"
#include "checkpoint/save_folder.h"
#include "conversation/chat_renderer.h"
#include "train/measured_on.h"
#include "train/trainer.h"

namespace viaduct {
namespace {

/// The clock of rank 0, so that all ranks put the same prompts.
TemplateClock common_clock(HostGroup& hosts) {
  const TemplateClock mine = local_clock();
  TemplateClock clock;
  std::istringstream fields(hosts.text_of_rank_0(fmt::format(
      "{} {} {} {} {} {}", mine.year, mine.month, mine.day, mine.hour, mine.minute, mine.second)));
  fields >> clock.year >> clock.month >> clock.day >> clock.hour >> clock.minute >> clock.second;
  return clock;
}

}  // namespace

void Trainer::open_validation_files() {
  const ValidationConfig& validation = config_.validation;
  PromptAsking asking;
  if (validation.sample_prompts) asking.clock = common_clock(world_->host());
  const auto read = [&] {
    if (validation.tasks) {
      TaskFile file = read_task_file("validation.tasks", *validation.tasks);
      std::vector<ScoredTokens> tokens = task_tokens(file, *setup_.tokenizer, {});
      tasks_ = prepare_tasks(std::move(file), std::move(tokens), run_.positions);
    }
    if (validation.sample_prompts) {
      asking.as_messages = data_->learns_a_template();
      asking.tokenizer = setup_.tokenizer_folder;
      prompts_ = read_sample_prompts(*validation.sample_prompts, *setup_.tokenizer, asking,
                                     run_.positions, validation.sample_tokens);
    }
    watched_ = watched_metric(config_, metrics_of_run(!data_->validation_sets().empty(),
                                                      tasks_ ? &tasks_->file : nullptr));
  };
  run_on_all(*world_, read, "reading the files of section validation");
  identify_evaluations();
  if (!leads()) return;
  if (tasks_) {
    if (const std::string text = shortened_text(*tasks_, run_.positions); !text.empty())
      log_warning("{}", text);
  }
  if (prompts_) log_info("{}", prompts_->form);
  if (watched_) log_info("evaluations are compared by {}", described(*watched_));
}

void Trainer::identify_evaluations() {
  const CheckpointConfig& checkpoint = config_.checkpoint;
  // Trusted data are read as far as a run asks for it: without checkpoints there is no other
  // session.
  const bool needed =
      !config_.dataset.fast_cache_load || checkpoint.save || checkpoint.load.value();
  std::string mine;
  const auto read = [&] {
    if (leads() && needed) mine = data_->validation_measured_on();
  };
  run_on_all(*world_, read, "reading the indices of the validation data");
  validated_on_ = world_->host().text_of_rank_0(mine);
  if (!watched_) return;
  watched_->measured_on = watched_->name == kValidationLoss
                              ? validated_on_
                              : tasks_measured_on(tasks_->file, run_.positions);
}

bool Trainer::forget_other_measures() {
  // With another scale of its adapters it is another model.
  const bool same_loss = !rescaled_ && same_measure(state_.validated_on, validated_on_);
  if (config_.train.skip_train) return same_loss;
  state_.validated_on = validated_on_;
  if (!watched_ || !state_.best) return same_loss;
  if (!rescaled_ && is_compared_with(*watched_, *state_.best)) return same_loss;
  if (rescaled_) {
    log_->note(fmt::format(
        "the best {} so far, {:.6g} of step {}, was measured with another scale of the adapters; "
        "evaluations are compared anew from here on",
        state_.best->metric, state_.best->value, state_.best->step));
  } else if (state_.best->metric != watched_->name) {
    log_->note(
        fmt::format("the best evaluation so far was by {}; they are compared by {} from here on",
                    state_.best->metric, watched_->name));
  } else {
    log_->note(fmt::format(
        "the best {} so far, {:.6g} of step {}, was measured on {}; evaluations are compared anew "
        "from here on",
        state_.best->metric, state_.best->value, state_.best->step,
        watched_->name == kValidationLoss
            ? "other validation data, or with other tokens of them scored"
            : "other tasks, or with fewer or more positions"));
  }
  state_.best.reset();
  return same_loss;
}

bool Trainer::evaluate_tasks(EvaluationFigures& figures) {
  if (!tasks_) return true;
  const double begin = steady_seconds();
  const auto texts =
      score_texts(*engine_, tasks_->texts,
                  {.micro_batch_tokens = config_.train.micro_batch_rows() * run_.positions,
                   .requests = tasks_->requests},
                  {.stop = [&] { return stop_requested(); }});
  if (!texts) return false;
  TaskMetrics metrics{state_.step, state_.consumed_samples, state_.consumed_tokens,
                      task_figures(tasks_->file, *texts), steady_seconds() - begin};
  add_figures(metrics.tasks, figures);
  log_->tasks(metrics);
  return true;
}

void Trainer::answer_prompts() {
  if (!prompts_) return;
  const double begin = steady_seconds();
  AnswerMetrics metrics{state_.step, state_.consumed_samples, state_.consumed_tokens,
                        viaduct::answer_prompts(*engine_, *setup_.tokenizer, *prompts_)};
  metrics.seconds = steady_seconds() - begin;
  log_->answers(metrics);
}

void Trainer::judge_evaluation(const EvaluationFigures& figures) {
  // The weights that a run begins with are no result of it.
  if (!watched_ || state_.step == 0 || config_.train.skip_train) return;
  if (!judge(*watched_, figures, state_.step, state_.best)) return;
  log_->note(fmt::format("step {} | best {} so far: {:.6g}", state_.step, watched_->name,
                         state_.best->value));
}

bool Trainer::is_best_step() const {
  return config_.checkpoint.keep_best && config_.checkpoint.save && !config_.train.skip_train &&
         state_.best && state_.best->step == state_.step;
}

bool Trainer::ends_early() {
  if (config_.train.skip_train) return false;
  const auto& patience = config_.train.early_stopping_patience;
  if (!watched_ || !is_out_of_patience(state_.best, patience)) return false;
  log_->note(
      fmt::format("{} is not better than {:.6g}, of step {}, since {} "
                  "(train.early_stopping_patience={})",
                  state_.best->metric, state_.best->value, state_.best->step,
                  counted(state_.best->evaluations_since, "evaluation"), *patience));
  return true;
}

void Trainer::settle_best() {
  const auto settle = [&] {
    if (!lock_ || !config_.checkpoint.keep_best || config_.train.skip_train) return;
    const std::filesystem::path& save = lock_->folder();
    const std::optional<int64_t> named = best_step(save);
    const std::optional<int64_t> best =
        state_.best ? std::optional(state_.best->step) : std::nullopt;
    if (named == best) return;
    std::error_code ignored;
    if (best && std::filesystem::is_directory(save / step_folder_name(*best), ignored))
      return write_best(save, *best);
    if (best)
      log_warning("{}: the best checkpoint so far, of step {}, is not there", save.string(), *best);
    remove_best(save);
  };
  run_on_all(*world_, settle, "naming the best checkpoint");
}

}  // namespace viaduct
