#include "inference/task_evaluation.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "run/base_model.h"
#include "run/encoder_support.h"
#include "run/resolved_run.h"
#include "run/same_settings.h"

namespace viaduct {
namespace {

bool length_is_given(const TaskEvaluationRequest& request, const RunSetup& run) {
  return request.inference.sequence_length ||
         std::find(run.given.begin(), run.given.end(), "model.seq_length") != run.given.end();
}

}  // namespace

PreparedTasks prepare_tasks(TaskFile file, std::vector<ScoredTokens> tokens, int64_t row) {
  PreparedTasks tasks;
  tasks.shortened = cut_to_row(file, row, tokens);
  tasks.file = std::move(file);
  for (ScoredTokens& scored : tokens) {
    TextToScore text;
    const size_t request = tasks.requests++;
    for (int64_t position = scored.read() - scored.scored; position < scored.read(); ++position) {
      text.targets.push_back({position, scored.ids[static_cast<size_t>(position) + 1], request});
    }
    text.ids = std::move(scored.ids);
    text.ids.pop_back();
    tasks.texts.push_back(std::move(text));
  }
  tasks.texts = join_texts(std::move(tasks.texts));
  return tasks;
}

std::string shortened_text(const PreparedTasks& tasks, int64_t row) {
  if (tasks.shortened == 0) return "";
  return fmt::format("{}: texts longer than a row of {} lose tokens on the left: {} of {}",
                     tasks.file.name, counted(row, "token"), tasks.shortened, tasks.requests);
}

TaskEvaluation prepare_task_evaluation(const TaskEvaluationRequest& request) {
  TaskFile file = read_task_file("--tasks", request.tasks);
  TaskTextOptions options{.delimiter = request.delimiter};
  VIADUCT_CHECK(ConfigError, request.few_shot == 0 || request.examples,
                "--few-shot {}: expected --examples FILE.jsonl with the examples",
                request.few_shot);
  if (request.examples) {
    options.examples = few_shot_text(read_task_file("--examples", *request.examples),
                                     request.few_shot, request.delimiter);
  }
  TaskEvaluation evaluation{prepare_inference(request.inference), {}};
  RunSetup& run = evaluation.run;
  refuse_encoder(run.model, "viaduct eval --tasks");
  VIADUCT_CHECK(ConfigError, run.tokenizer.has_value(),
                "--tasks {}: tasks need a tokenizer, but the model's folder has none "
                "(tokenizer.tokenizer_model can name one)",
                request.tasks.string());
  std::vector<ScoredTokens> tokens = task_tokens(file, *run.tokenizer, options);
  const int64_t longest = longest_read(tokens);
  if (longest > run.config.model.seq_length.value() && !length_is_given(request, run)) {
    InferenceRequest longer = request.inference;
    longer.sequence_length = row_that_holds(longest, run.model.max_positions);
    run = prepare_inference(longer);
  }
  const int64_t row = run.config.model.seq_length.value();
  evaluation.tasks = prepare_tasks(std::move(file), std::move(tokens), row);
  if (std::string text = shortened_text(evaluation.tasks, row); !text.empty())
    run.notes.push_back(std::move(text));
  return evaluation;
}

TaskScore evaluate_tasks(const TaskEvaluation& evaluation, Device& device, const OpTable& ops,
                         std::shared_ptr<Communicator> world,
                         std::function<void(int64_t done, int64_t of)> progress) {
  const RunSetup& run = evaluation.run;
  world->record_on(&device);
  check_same_settings(world->host(), run.config);
  const ResolvedRun resolved = resolve_run(run.config, run.model);
  Engine engine(device, ops, run.model, resolved, make_groups(resolved, world));
  OpContext context{device, ops};
  read_checked_weights(context, engine.store(), run, *world);
  TaskScore score;
  score.texts =
      score_texts(engine, evaluation.tasks.texts,
                  {.micro_batch_tokens = run.config.train.micro_batch_rows() * resolved.positions,
                   .requests = evaluation.tasks.requests},
                  {.stop = {}, .progress = std::move(progress)})
          .value();
  score.figures = task_figures(evaluation.tasks.file, score.texts);
  return score;
}

}  // namespace viaduct
