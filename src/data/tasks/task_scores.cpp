#include "data/tasks/task_scores.h"

#include <cmath>
#include <map>
#include <span>

#include "base/error.h"
#include "base/json.h"
#include "template/unicode_text.h"

namespace viaduct {
namespace {

/// Of zeros and ones, or other values of lines.
struct LineValues {
  std::vector<double> values;

  TaskMean mean() const {
    const auto count = static_cast<double>(values.size());
    double sum = 0, squares = 0;
    for (const double v : values) sum += v;
    TaskMean mean{sum / count, std::nullopt};
    if (values.size() < 2) return mean;
    for (const double v : values) squares += (v - mean.value) * (v - mean.value);
    mean.error = std::sqrt(squares / (count - 1)) / std::sqrt(count);
    return mean;
  }
};

struct OfTask {
  LineValues acc, acc_norm, acc_bytes, log_likelihoods;
  int64_t lines = 0;
};

/// 1 if the right choice is the first of the largest.
template <class Length>
double is_right(const TaskLine& line, std::span<const TextLikelihood> texts, const Length& length) {
  size_t best = 0;
  double most = 0;
  for (size_t i = 0; i < line.choices.size(); ++i) {
    const double score = texts[i].log_likelihood / length(line.choices[i]);
    if (i == 0 || score > most) best = i, most = score;
  }
  return best == line.answer ? 1 : 0;
}

void add_line(const TaskLine& line, std::span<const TextLikelihood> texts, OfTask& task) {
  ++task.lines;
  if (!line.is_choice()) {
    task.acc.values.push_back(texts[0].is_greedy ? 1 : 0);
    task.log_likelihoods.values.push_back(texts[0].log_likelihood);
    return;
  }
  task.acc.values.push_back(is_right(line, texts, [](const std::string&) { return 1.0; }));
  task.acc_norm.values.push_back(is_right(line, texts, [](const std::string& choice) {
    return static_cast<double>(jinja::code_points(choice));
  }));
  task.acc_bytes.values.push_back(is_right(
      line, texts, [](const std::string& choice) { return static_cast<double>(choice.size()); }));
}

}  // namespace

std::vector<TaskFigures> task_figures(const TaskFile& file,
                                      const std::vector<TextLikelihood>& texts) {
  std::map<std::string, OfTask> tasks;
  size_t next = 0;
  for (const TaskLine& line : file.lines) {
    VIADUCT_CHECK(ShapeError, next + line.texts() <= texts.size(), "tasks: {} scores, line {}",
                  texts.size(), line.line);
    add_line(line, std::span(texts).subspan(next, line.texts()), tasks[line.task]);
    next += line.texts();
  }
  std::vector<TaskFigures> all;
  for (const std::string& name : file.tasks()) {
    const OfTask& task = tasks.at(name);
    TaskFigures& figures = all.emplace_back();
    figures.task = name;
    figures.lines = task.lines;
    figures.acc = task.acc.mean();
    if (!task.acc_norm.values.empty()) {
      figures.acc_norm = task.acc_norm.mean();
      figures.acc_bytes = task.acc_bytes.mean();
    }
    if (!task.log_likelihoods.values.empty())
      figures.perplexity = std::exp(-task.log_likelihoods.mean().value);
  }
  return all;
}

nlohmann::ordered_json to_json(const TaskFigures& figures) {
  using Json = nlohmann::ordered_json;
  Json object;
  const auto add = [&](const std::string& name, const std::optional<TaskMean>& mean) {
    if (!mean) return;
    object[name] = mean->value;
    object[name + "_stderr"] = mean->error ? Json(*mean->error) : Json();
  };
  add("acc", figures.acc);
  add("acc_norm", figures.acc_norm);
  add("acc_bytes", figures.acc_bytes);
  if (figures.perplexity) {
    // JSON has no infinity.
    object["perplexity"] = std::isfinite(*figures.perplexity) ? Json(*figures.perplexity) : Json();
  }
  object["lines"] = figures.lines;
  return object;
}

std::vector<std::pair<std::string, double>> named_figures(const TaskFigures& figures) {
  std::vector<std::pair<std::string, double>> named{{"acc", figures.acc.value}};
  if (figures.acc_norm) named.emplace_back("acc_norm", figures.acc_norm->value);
  if (figures.acc_bytes) named.emplace_back("acc_bytes", figures.acc_bytes->value);
  if (figures.perplexity) named.emplace_back("perplexity", *figures.perplexity);
  return named;
}

}  // namespace viaduct
