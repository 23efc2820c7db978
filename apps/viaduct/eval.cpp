// viaduct eval: loss, perplexity and bits per byte of a text or a data set, or the scores of tasks.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "before_ranks.h"
#include "dry_run_stages.h"
#include "engine/dry_run.h"
#include "eval_tasks.h"
#include "evaluated_models.h"
#include "generation_options.h"
#include "inference/text_evaluation.h"
#include "model_options.h"
#include "number_checks.h"
#include "override_scope.h"
#include "run/launch.h"
#include "subcommands.h"

namespace viaduct::cli {
namespace {

struct Arguments {
  InferenceRequest inference;
  std::vector<std::string> adapters;
  TextEvaluationRequest text;
  TaskArguments tasks;
  bool json = false, dry_run = false;

  bool has_tasks() const { return !tasks.request.tasks.empty(); }
};

/// Of tasks: without the rows that hold conversations.
OverrideScope scope(bool tasks) {
  OverrideScope scope{"viaduct eval",
                      {"comm_overlap", "dist", "mixed_precision", "model", "peft.base_format",
                       "tokenizer.tokenizer_model", "train.micro_batch_size"}};
  if (tasks) return scope;
  for (const char* field : {"dataset.answer_only_loss", "dataset.packed_sequence_size",
                            "dataset.packing_algorithm", "dataset.packing_split"})
    scope.reads.emplace_back(field);
  return scope;
}

using Texts = std::vector<EvaluatedModel<TextEvaluation>>;

nlohmann::ordered_json document_of(const EvaluationData& data, const TextScore& score) {
  nlohmann::ordered_json document{{"loss", score.loss},         {"perplexity", score.perplexity},
                                  {"bits_per_byte", nullptr},   {"tokens", score.tokens},
                                  {"data_tokens", data.tokens}, {"conversations", nullptr},
                                  {"seconds", score.seconds}};
  if (score.bits_per_byte) document["bits_per_byte"] = *score.bits_per_byte;
  if (data.conversations) document["conversations"] = *data.conversations;
  return document;
}

void print_documents(const Texts& models, const std::vector<TextScore>& scores) {
  nlohmann::ordered_json all;
  for (size_t i = 0; i < models.size(); ++i) {
    const auto document = document_of(models[i].evaluation.data, scores[i]);
    (have_names(models) ? all["adapters"][models[i].name] : all) = document;
  }
  fmt::print("{}\n", all.dump());
}

/// A line for each adapter.
void print_rows(const Texts& models, const std::vector<TextScore>& scores) {
  const size_t width = name_width(models);
  fmt::print("{:<{}} {:>12} {:>12} {:>14} {:>14} {:>12}\n", "adapter", width, "loss", "perplexity",
             "bits per byte", "tokens scored", "tokens/s");
  for (size_t i = 0; i < models.size(); ++i) {
    const TextScore& score = scores[i];
    const auto tokens = static_cast<double>(models[i].evaluation.data.tokens);
    fmt::print("{:<{}} {:>12.6f} {:>12.6g} {:>14} {:>14} {:>12.1f}\n", models[i].name, width,
               score.loss, score.perplexity,
               score.bits_per_byte ? fmt::format("{:.6f}", *score.bits_per_byte) : "–",
               score.tokens, tokens / std::max(score.seconds, 1e-9));
  }
}

void print_table(const EvaluationData& data, const TextScore& score) {
  fmt::print("{:<16} {:>12.6f}\n", "loss", score.loss);
  fmt::print("{:<16} {:>12.6g}\n", "perplexity", score.perplexity);
  if (score.bits_per_byte) fmt::print("{:<16} {:>12.6f}\n", "bits per byte", *score.bits_per_byte);
  if (data.conversations) fmt::print("{:<16} {:>12}\n", "conversations", *data.conversations);
  fmt::print("{:<16} {:>12} of {}\n", "tokens scored", score.tokens, data.tokens);
  fmt::print("{:<16} {:>12}\n", "tokens of a row", data.rows->sequence_length());
  fmt::print("{:<16} {:>12.1f}\n", "tokens/s",
             static_cast<double>(data.tokens) / std::max(score.seconds, 1e-9));
}

void evaluate_data(const Texts& models, const Launch& launch, bool json) {
  measure<TextScore>(
      models, launch,
      [](const TextEvaluation& evaluation, Device& device, const OpTable& ops,
         std::shared_ptr<Communicator> world, const auto& progress) {
        if (world->rank() == 0) {
          if (!evaluation.data.note.empty()) log_info("{}", evaluation.data.note);
          if (!evaluation.data.warning.empty()) log_warning("{}", evaluation.data.warning);
        }
        return evaluate_text(evaluation, device, ops, std::move(world), progress);
      },
      [&](const std::vector<TextScore>& scores) {
        if (json) return print_documents(models, scores);
        if (have_names(models)) return print_rows(models, scores);
        print_table(models.front().evaluation.data, scores.front());
      });
}

/// The adapters that are measured, by the names in the results; without any the model itself.
std::vector<std::pair<std::string, std::optional<std::string>>> adapters_of(
    const std::vector<std::string>& options) {
  const GivenAdapters given = given_adapters(options);
  if (given.named.empty()) return {{"", given.folder}};
  std::vector<std::pair<std::string, std::optional<std::string>>> adapters;
  if (given.folder) adapters.emplace_back(*given.folder, given.folder);
  for (const NamedAdapter& named : given.named)
    adapters.emplace_back(named.name, named.folder.string());
  return adapters;
}

/// What `prepare` makes of each model and its data, which every process does before the ranks
/// connect.
template <class Evaluation, class Prepare>
std::vector<EvaluatedModel<Evaluation>> prepared(Arguments& arguments, Launch& launch,
                                                 const Prepare& prepare) {
  return before_ranks([&] {
    VIADUCT_CHECK(ConfigError, arguments.has_tasks() || !arguments.text.data.empty(),
                  "viaduct eval: expected --data (a text or a data set) or --tasks (a file of "
                  "tasks)");
    scope(arguments.has_tasks()).check(arguments.inference.overrides);
    const auto adapters = adapters_of(arguments.adapters);
    VIADUCT_CHECK(ConfigError, adapters.size() == 1 || !arguments.dry_run || !arguments.json,
                  "--dry-run --json with {} adapters: they are measured one after the other, and "
                  "the document is of one; expected one --adapter",
                  adapters.size());
    if (!arguments.dry_run) launch = launch_of_process();
    arguments.inference.dist = launch_defaults(launch, {{}, arguments.inference.overrides});
    std::vector<EvaluatedModel<Evaluation>> models;
    for (const auto& [name, folder] : adapters) {
      arguments.inference.adapter = folder;
      models.push_back({name, prepare()});
    }
    check_started(models.front().evaluation.run.config.dist, launch);
    return models;
  });
}

int run(Arguments arguments) {
  Launch launch;
  const auto act = [&](const auto& models, const auto& evaluate) {
    if (!arguments.dry_run) {
      evaluate(models);
      return 0;
    }
    for (const auto& model : models)
      print_memory(dry_run_stages(model.evaluation.run),
                   "an evaluated micro-batch" +
                       (model.name.empty() ? "" : " with the adapter " + model.name),
                   arguments.json);
    return 0;
  };
  if (arguments.has_tasks()) {
    const auto tasks = prepared<TaskEvaluation>(arguments, launch, [&] {
      arguments.tasks.request.inference = arguments.inference;
      return prepare_task_evaluation(arguments.tasks.request);
    });
    return act(tasks, [&](const EvaluatedTasks& models) {
      run_task_evaluation(models, launch, arguments.tasks.rows, arguments.json);
    });
  }
  const Texts texts = prepared<TextEvaluation>(arguments, launch, [&] {
    arguments.text.inference = arguments.inference;
    return prepare_text_evaluation(arguments.text);
  });
  return act(texts, [&](const Texts& models) { evaluate_data(models, launch, arguments.json); });
}

/// The options of --tasks.
void add_task_options(CLI::App& app, TaskArguments& tasks, CLI::Option* data, CLI::Option* stride) {
  TaskEvaluationRequest& request = tasks.request;
  CLI::Option* file =
      app.add_option("--tasks", request.tasks,
                     "FILE.jsonl of questions with choices, and of texts with a continuation: a "
                     "line is {context, choices, answer, task} or {context, continuation, task}, "
                     "task may be left out")
          ->check(not_empty())
          ->excludes(data)
          ->excludes(stride);
  CLI::Option* examples =
      app.add_option("--examples", request.examples, "FILE.jsonl of such lines, for --few-shot")
          ->check(not_empty())
          ->needs(file);
  CLI::Option* count =
      app.add_option("--few-shot", request.few_shot,
                     "Put so many of the examples, with their right answers, before each context")
          ->check(CLI::NonNegativeNumber)
          ->needs(file)
          ->needs(examples);
  examples->needs(count);
  app.add_option("--delimiter", request.delimiter,
                 "What joins a context and a choice; default: a space; \"\": nothing")
      ->needs(file);
  app.add_flag("--rows", tasks.rows, "Also the log-likelihoods of each line")->needs(file);
}

}  // namespace

Subcommand add_eval(CLI::App& root) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* app = root.add_subcommand(
      "eval", "Loss, perplexity and bits per byte of a text or a data set, or the scores of tasks");
  add_model_option(*app, arguments->inference.model);
  app->add_option("--adapter", arguments->adapters,
                  "Folder of an adapter, as PEFT or a run with adapters writes it; NAME=DIR (any "
                  "number of times): each is measured, and the results are by name")
      ->allow_extra_args(false)  // what follows is an override
      ->check(not_empty());
  CLI::Option* data =
      app->add_option("--data", arguments->text.data,
                      "A text file, which the model's tokenizer encodes, or PREFIX of a data set "
                      "(PREFIX.bin and PREFIX.idx), whose documents follow each other; with a mask "
                      "(PREFIX.mask.bin and .idx) they are conversations, and the tokens of the "
                      "mask are scored")
          ->check(not_empty());
  app->add_option("--sequence-length", arguments->inference.sequence_length,
                  "Tokens of a row; by default model.seq_length, else 2048 or the model's "
                  "positions. Of tasks and conversations: as many as the longest one needs, up to "
                  "the positions")
      ->check(positive());
  CLI::Option* stride =
      app->add_option(
             "--stride", arguments->text.stride,
             "Of texts: tokens between the starts of two rows; default: the sequence length. With "
             "a "
             "smaller stride rows overlap, and a token is scored in the first row that has it")
          ->check(positive());
  add_task_options(*app, arguments->tasks, data, stride);
  app->add_flag("--json", arguments->json,
                "One JSON document: loss, perplexity, bits_per_byte (null without a tokenizer), "
                "tokens (scored), data_tokens (all), conversations (null of a text), seconds; of "
                "tasks: tasks, and rows with --rows; with --adapter NAME=DIR such a document for "
                "each name, in adapters");
  app->add_flag("--dry-run", arguments->dry_run, "Print the memory of each rank; start nothing");
  app->add_option("OVERRIDES", arguments->inference.overrides, overrides_text(scope(false)));
  app->footer(
      "Of a text every token but the first is scored once, given the tokens before it in its row; "
      "of conversations\nthose of the mask, given the tokens before them in their conversation, as "
      "in the validation of a run. Bits per byte\nrelate to the bytes of the text of the scored "
      "tokens.\n\n"
      "Example:\n  viaduct eval --model runs/quickstart/checkpoints --data "
      "data/tinyshakespeare.txt "
      "--sequence-length 256 --stride 128\n  viaduct eval --model DIR --tasks tasks.jsonl --json");
  return {app, [arguments] { return run(*arguments); }};
}

}  // namespace viaduct::cli
