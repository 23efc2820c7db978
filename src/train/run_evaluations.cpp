#include "train/run_evaluations.h"

#include <fmt/format.h>

#include <sstream>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "checkpoint/on_all_ranks.h"
#include "conversation/chat_renderer.h"
#include "engine/evaluation.h"
#include "engine/score_texts.h"
#include "train/measured_on.h"

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

RunEvaluations::RunEvaluations(const Run& run) : run_(run), config_(run.setup.config) {
  const ValidationConfig& validation = config_.validation;
  PromptAsking asking;
  if (validation.sample_prompts) asking.clock = common_clock(run_.world.host());
  const auto read = [&] {
    const RunSetup& setup = run_.setup;
    const int64_t positions = run_.resolved.positions;
    if (validation.tasks) {
      TaskFile file = read_task_file("validation.tasks", *validation.tasks);
      std::vector<ScoredTokens> tokens = task_tokens(file, *setup.tokenizer, {});
      tasks_ = prepare_tasks(std::move(file), std::move(tokens), positions);
    }
    if (validation.sample_prompts) {
      asking.as_messages = run_.data.learns_a_template();
      asking.tokenizer = setup.tokenizer_folder;
      if (setup.model.encoder.any()) asking.encoder = &setup.model;
      prompts_ = read_sample_prompts(*validation.sample_prompts, *setup.tokenizer, asking,
                                     positions, validation.sample_tokens);
    }
    watched_ = watched_metric(config_, metrics_of_run(!run_.data.validation_sets().empty(),
                                                      tasks_ ? &tasks_->file : nullptr));
  };
  run_on_all(run_.world, read, "reading the files of section validation");
  identify();
  if (!leads()) return;
  if (tasks_) {
    if (const std::string text = shortened_text(*tasks_, run_.resolved.positions); !text.empty())
      log_warning("{}", text);
  }
  if (prompts_) log_info("{}", prompts_->form);
  if (watched_) log_info("evaluations are compared by {}", described(*watched_));
}

void RunEvaluations::identify() {
  const CheckpointConfig& checkpoint = config_.checkpoint;
  // Trusted data are read as far as a run asks for it: without checkpoints there is no other
  // session.
  const bool needed =
      !config_.dataset.fast_cache_load || checkpoint.save || checkpoint.load.value();
  std::string mine;
  const auto read = [&] {
    if (leads() && needed) mine = run_.data.validation_measured_on();
  };
  run_on_all(run_.world, read, "reading the indices of the validation data");
  validated_on_ = run_.world.host().text_of_rank_0(mine);
  if (!watched_) return;
  watched_->measured_on = watched_->name == kValidationLoss
                              ? validated_on_
                              : tasks_measured_on(tasks_->file, run_.resolved.positions);
}

void RunEvaluations::take_before(const Place& place, bool rescaled) {
  const auto& sets = run_.data.validation_sets();
  const bool same_loss = forget_other_measures(place, rescaled);
  if (config_.train.skip_train) return;
  const TrainState& state = place.state;
  double loss = 0;
  // Evaluations are compared by what this session measures.
  const bool compared = !watched_ || (state.best && state.best->judged_step == state.step);
  bool known =
      compared && same_loss && (!sets.empty() || tasks_) && (!tasks_ || place.log.tasks_before());
  for (size_t i = 0; i < sets.size(); ++i) {
    const auto number = sets.size() > 1 ? std::optional(static_cast<int64_t>(i)) : std::nullopt;
    const auto before = place.log.validation_before(number);
    known = known && before;
    // Every set has the same number of rows, so all have equal weight.
    loss += before.value_or(0) / static_cast<double>(sets.size());
  }
  if (run_.world.host().most(known ? 1 : 0) > 0) {
    evaluated_step_ = state.step;  // an earlier session evaluated and logged it
    if (known && !sets.empty()) validations_.emplace_back(state.step, loss);
  }
}

bool RunEvaluations::evaluate(const Place& place) {
  if (evaluated_step_ == place.state.step) return true;
  EvaluationFigures figures;
  if (!evaluate_data(place, figures) || !evaluate_tasks(place, figures)) return false;
  answer_prompts(place);
  evaluated_step_ = place.state.step;
  judge_evaluation(place, figures);
  return true;
}

bool RunEvaluations::evaluate_data(const Place& place, EvaluationFigures& figures) {
  const auto& sets = run_.data.validation_sets();
  double loss = 0, scored = 0;
  for (size_t i = 0; i < sets.size(); ++i) {
    ValidationMetrics metrics;
    if (sets.size() > 1) {
      metrics.set = static_cast<int64_t>(i);
      metrics.set_name = sets[i].name;
    }
    const auto result = evaluate(place, sets[i], std::move(metrics));
    if (!result) return false;
    loss += result->validation_loss * static_cast<double>(result->validation_tokens);
    scored += static_cast<double>(result->validation_tokens);
  }
  if (scored > 0) {
    figures[kValidationLoss] = loss / scored;
    validations_.emplace_back(place.state.step, loss / scored);
  }
  return true;
}

bool RunEvaluations::evaluate_tasks(const Place& place, EvaluationFigures& figures) const {
  if (!tasks_) return true;
  const double begin = steady_seconds();
  const auto texts =
      score_texts(place.engine, tasks_->texts,
                  {.micro_batch_tokens = config_.train.micro_batch_rows() * run_.resolved.positions,
                   .requests = tasks_->requests},
                  {.stop = place.stop});
  if (!texts) return false;
  const TrainState& state = place.state;
  TaskMetrics metrics{state.step, state.consumed_samples, state.consumed_tokens,
                      task_figures(tasks_->file, *texts), steady_seconds() - begin};
  add_figures(metrics.tasks, figures);
  place.log.tasks(metrics);
  return true;
}

void RunEvaluations::answer_prompts(const Place& place) const {
  if (!prompts_) return;
  const double begin = steady_seconds();
  const TrainState& state = place.state;
  AnswerMetrics metrics{state.step, state.consumed_samples, state.consumed_tokens};
  const std::vector<std::string> answers =
      viaduct::answer_prompts(place.engine, *run_.setup.tokenizer, *prompts_);
  for (size_t i = 0; i < answers.size(); ++i)
    metrics.answers.push_back({prompts_->texts[i].text, answers[i]});
  metrics.seconds = steady_seconds() - begin;
  place.log.answers(metrics);
}

void RunEvaluations::test(const Place& place) {
  const auto& set = run_.data.test_set();
  if (!set) return;
  const bool said = !config_.train.skip_train && place.log.test_before();
  if (run_.world.host().most(said ? 1 : 0) > 0) return;
  ValidationMetrics metrics;
  metrics.test = true;
  const auto result = evaluate(place, *set, std::move(metrics));
  if (result && result->validation_tokens > 0) test_loss_ = result->validation_loss;
}

std::optional<ValidationMetrics> RunEvaluations::evaluate(const Place& place,
                                                          const EvaluationSet& set,
                                                          ValidationMetrics metrics) const {
  const double begin = steady_seconds();
  const std::optional<EvaluationSums> sums =
      viaduct::evaluate(place.engine, set, run_.data.place(), {.stop = place.stop});
  if (!sums) return std::nullopt;
  metrics.step = place.state.step;
  metrics.samples = place.state.consumed_samples;
  metrics.tokens = place.state.consumed_tokens;
  metrics.validation_tokens = static_cast<int64_t>(sums->scored);
  metrics.validation_seconds = steady_seconds() - begin;
  if (sums->scored == 0) return metrics;
  metrics.validation_loss = sums->loss / sums->scored;
  if (place.owns_folder()) place.log.validation(metrics);
  return metrics;
}

}  // namespace viaduct
