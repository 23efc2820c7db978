#include "eval_tasks.h"

#include <fmt/core.h>

#include <span>

#include "base/json.h"

namespace viaduct::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Calls `use` with each line and the scores of its choices, or its continuation.
template <class F>
void for_each_line(const TaskFile& file, const TaskScore& score, const F& use) {
  size_t next = 0;
  for (const TaskLine& line : file.lines) {
    use(line, std::span(score.texts).subspan(next, line.texts()));
    next += line.texts();
  }
}

Json document_of(const TaskFile& file, const TaskScore& score, bool rows) {
  Json document{{"tasks", Json::object()}};
  for (const TaskFigures& figures : score.figures)
    document["tasks"][figures.task] = to_json(figures);
  if (rows) {
    Json& list = document["rows"] = Json::array();
    for_each_line(file, score, [&](const TaskLine&, std::span<const TextLikelihood> texts) {
      Json likelihoods = Json::array(), greedy = Json::array();
      for (const TextLikelihood& text : texts) {
        likelihoods.push_back(text.log_likelihood);
        greedy.push_back(text.is_greedy);
      }
      list.push_back({{"log_likelihoods", likelihoods}, {"is_greedy", greedy}});
    });
  }
  return document;
}

void print_documents(const EvaluatedTasks& models, const std::vector<TaskScore>& scores,
                     bool rows) {
  Json all;
  for (size_t i = 0; i < models.size(); ++i) {
    const Json document = document_of(models[i].evaluation.tasks.file, scores[i], rows);
    (have_names(models) ? all["adapters"][models[i].name] : all) = document;
  }
  fmt::print("{}\n", all.dump());
}

std::string cell(const std::optional<TaskMean>& mean) {
  if (!mean) return "–";
  return mean->error ? fmt::format("{:.4f} ± {:.4f}", mean->value, *mean->error)
                     : fmt::format("{:.4f}", mean->value);
}

/// Lines of all adapters, which have the same tasks.
void print_tables(const EvaluatedTasks& models, const std::vector<TaskScore>& scores, bool rows) {
  size_t width = 4;
  for (const TaskFigures& figures : scores.front().figures)
    width = std::max(width, figures.task.size());
  const auto named = [&](const std::string& name) {
    return have_names(models) ? fmt::format("{:<{}} ", name, name_width(models)) : std::string();
  };
  fmt::print("{}{:<{}} {:>6} {:>17} {:>17} {:>17} {:>12}\n", named("adapter"), "task", width,
             "lines", "acc", "acc_norm", "acc_bytes", "perplexity");
  for (size_t i = 0; i < models.size(); ++i) {
    for (const TaskFigures& f : scores[i].figures) {
      fmt::print("{}{:<{}} {:>6} {:>17} {:>17} {:>17} {:>12}\n", named(models[i].name), f.task,
                 width, f.lines, cell(f.acc), cell(f.acc_norm), cell(f.acc_bytes),
                 f.perplexity ? fmt::format("{:.6g}", *f.perplexity) : "–");
    }
  }
  if (!rows) return;
  fmt::print("\n{}{:<{}} {:>6}  log-likelihoods (*: greedy)\n", named("adapter"), "task", width,
             "line");
  const auto print_lines = [&](const std::string& name, const TaskFile& file,
                               const TaskScore& score) {
    for_each_line(file, score, [&](const TaskLine& line, std::span<const TextLikelihood> texts) {
      std::string list;
      for (const TextLikelihood& text : texts)
        list += fmt::format(" {:.4f}{}", text.log_likelihood, text.is_greedy ? "*" : "");
      fmt::print("{}{:<{}} {:>6} {}\n", name, line.task, width, line.line, list);
    });
  };
  for (size_t i = 0; i < models.size(); ++i)
    print_lines(named(models[i].name), models[i].evaluation.tasks.file, scores[i]);
}

}  // namespace

void run_task_evaluation(const EvaluatedTasks& models, const Launch& launch, bool rows, bool json) {
  measure<TaskScore>(
      models, launch,
      [](const TaskEvaluation& evaluation, Device& device, const OpTable& ops,
         std::shared_ptr<Communicator> world, const auto& progress) {
        return evaluate_tasks(evaluation, device, ops, std::move(world), progress);
      },
      [&](const std::vector<TaskScore>& scores) {
        (json ? print_documents : print_tables)(models, scores, rows);
      });
}

}  // namespace viaduct::cli
