#include "eval_tasks.h"

#include <fmt/core.h>
#include <unistd.h>

#include <span>

#include "base/json.h"
#include "base/units.h"
#include "model_options.h"
#include "run/rank_device.h"
#include "standard_streams.h"

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

void print_document(const TaskFile& file, const TaskScore& score, bool rows) {
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
  fmt::print("{}\n", document.dump());
}

std::string cell(const std::optional<TaskMean>& mean) {
  if (!mean) return "–";
  return mean->error ? fmt::format("{:.4f} ± {:.4f}", mean->value, *mean->error)
                     : fmt::format("{:.4f}", mean->value);
}

void print_table(const TaskFile& file, const TaskScore& score, bool rows) {
  size_t width = 4;
  for (const TaskFigures& figures : score.figures) width = std::max(width, figures.task.size());
  fmt::print("{:<{}} {:>6} {:>17} {:>17} {:>17} {:>12}\n", "task", width, "lines", "acc",
             "acc_norm", "acc_bytes", "perplexity");
  for (const TaskFigures& f : score.figures) {
    fmt::print("{:<{}} {:>6} {:>17} {:>17} {:>17} {:>12}\n", f.task, width, f.lines, cell(f.acc),
               cell(f.acc_norm), cell(f.acc_bytes),
               f.perplexity ? fmt::format("{:.6g}", *f.perplexity) : "–");
  }
  if (!rows) return;
  fmt::print("\n{:<{}} {:>6}  log-likelihoods (*: greedy)\n", "task", width, "line");
  for_each_line(file, score, [&](const TaskLine& line, std::span<const TextLikelihood> texts) {
    std::string list;
    for (const TextLikelihood& text : texts)
      list += fmt::format(" {:.4f}{}", text.log_likelihood, text.is_greedy ? "*" : "");
    fmt::print("{:<{}} {:>6} {}\n", line.task, width, line.line, list);
  });
}

}  // namespace

void run_task_evaluation(const TaskEvaluation& evaluation, const Launch& launch, bool rows,
                         bool json) {
  run_ranks(evaluation.run.config.dist, launch, [&](std::shared_ptr<Communicator> world) {
    const bool leads = world->rank() == 0;
    if (leads) log_notes(evaluation.run);
    const bool shows = leads && ::isatty(STDERR_FILENO) == 1;
    const RankDevice rank = make_rank_device(evaluation.run.config.dist);
    const TaskScore score = evaluate_tasks(
        evaluation, *rank.device, rank.ops, std::move(world), [&](int64_t done, int64_t of) {
          if (shows)
            say("\r{} of {}{}", done, counted(of, "micro-batch", "micro-batches"),
                done < of ? "" : "\n");
        });
    if (leads) (json ? print_document : print_table)(evaluation.tasks.file, score, rows);
  });
}

}  // namespace viaduct::cli
