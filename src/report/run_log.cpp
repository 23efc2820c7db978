#include "report/run_log.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/units.h"

namespace viaduct {
namespace {

using Json = nlohmann::json;

double number(const Json& line, const char* name, const std::string& what) {
  const auto found = line.find(name);
  VIADUCT_CHECK(IoError, found != line.end() && found->is_number(), "{}: {} is missing", what,
                name);
  return found->get<double>();
}

std::optional<double> number_if(const Json& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::string text_if(const Json& line, const char* name) {
  const auto found = line.find(name);
  return found != line.end() && found->is_string() ? found->get<std::string>() : "";
}

LoggedStep step_of(const Json& line, const std::string& what) {
  LoggedStep step;
  step.step = static_cast<int64_t>(number(line, "step", what));
  step.step_seconds = number(line, "step_seconds", what);
  step.communication_seconds = number(line, "communication_seconds", what);
  step.data_seconds = number_if(line, "data_seconds").value_or(0);
  step.peak_memory_bytes = static_cast<int64_t>(number(line, "peak_memory_bytes", what));
  step.skipped = static_cast<int64_t>(number_if(line, "skipped").value_or(0));
  step.nothing_scored = static_cast<int64_t>(number_if(line, "nothing_scored").value_or(0));
  step.loss = number_if(line, "loss");
  step.grad_norm = number_if(line, "grad_norm");
  step.learning_rate = number_if(line, "learning_rate");
  step.tokens_per_second = number_if(line, "tokens_per_second");
  step.tflops_per_rank = number_if(line, "tflops_per_rank");
  step.mfu = number_if(line, "mfu");
  if (const auto ranks = line.find("ranks"); ranks != line.end() && ranks->is_object()) {
    if (const auto seconds = ranks->find("step_seconds");
        seconds != ranks->end() && seconds->is_object()) {
      step.slowest_seconds = number_if(*seconds, "max");
      if (const auto rank = number_if(*seconds, "max_rank"))
        step.slowest_rank = static_cast<int64_t>(*rank);
    }
  }
  const auto routers = line.find("routers");
  if (routers == line.end() || !routers->is_object()) return step;
  for (const auto& [name, figure] : routers->items()) {
    if (!figure.is_object()) continue;
    if (name == "load") {
      step.expert_load = number_if(figure, "max");
    } else if (const auto mean = number_if(figure, "mean")) {
      step.router_means[name] = *mean;
    }
  }
  return step;
}

/// The figures of an evaluation on tasks; false if the line is none.
bool take_tasks(RunLog& log, const Json& line, const std::string& what) {
  const auto tasks = line.find("validation_tasks");
  if (tasks == line.end() || !tasks->is_object()) return false;
  const auto step = static_cast<int64_t>(number(line, "step", what));
  for (const auto& [task, figures] : tasks->items()) {
    if (!figures.is_object()) continue;
    for (const char* name : {"acc", "acc_norm", "acc_bytes", "perplexity"}) {
      if (const auto value = number_if(figures, name))
        log.figures.push_back({step, task, name, *value});
    }
  }
  return true;
}

/// What prompts were answered; false if the line is none of this kind.
bool take_answers(RunLog& log, const Json& line, const std::string& what) {
  const auto answers = line.find("validation_answers");
  if (answers == line.end() || !answers->is_array()) return false;
  const auto step = static_cast<int64_t>(number(line, "step", what));
  for (const Json& answer : *answers) {
    if (answer.is_object())
      log.answers.push_back({step, text_if(answer, "prompt"), text_if(answer, "answer")});
  }
  return true;
}

/// False for a line that is neither a step, a validation nor an end.
bool take_line(RunLog& log, const Json& line, const std::string& what) {
  VIADUCT_CHECK(IoError, line.is_object(), "{}: expected an object", what);
  bool known = line.contains("stopped");
  if (known) log.stopped = text_if(line, "stopped");
  for (const char* kind : {"validation", "test"}) {
    const std::string name(kind);
    known = known || line.contains(name + "_loss");  // null: not finite
    if (const auto loss = number_if(line, (name + "_loss").c_str()))
      log.validations.push_back({static_cast<int64_t>(number(line, "step", what)), *loss,
                                 text_if(line, (name + "_data").c_str()), name == "test"});
  }
  known = take_tasks(log, line, what) || take_answers(log, line, what) || known;
  if (!line.contains("step_seconds")) return known;
  log.stopped.clear();  // a run that stopped before this step was resumed
  log.steps.push_back(step_of(line, what));
  log.tokens = static_cast<int64_t>(number_if(line, "tokens").value_or(0));
  log.simulated = log.simulated || line.contains("simulated");
  if (const std::string peak = text_if(line, "mfu_peak"); !peak.empty()) log.mfu_peak = peak;
  if (const std::string flops = text_if(line, "flop_convention"); !flops.empty())
    log.flop_convention = flops;
  return true;
}

}  // namespace

RunLog read_run_log(const std::filesystem::path& metrics) {
  const MappedFile file(metrics);
  std::string_view rest = file.text();
  RunLog log;
  for (int64_t line = 1; !rest.empty(); ++line) {
    const size_t end = rest.find('\n');
    const std::string_view text = rest.substr(0, end);
    const std::string what = fmt::format("{}, line {}", metrics.string(), line);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (text.empty()) continue;
    if (end == std::string_view::npos) {
      const std::optional<Json> last = try_parse_json<Json>(text);
      log.truncated = !last;
      if (last && !take_line(log, *last, what)) log.unknown_lines.push_back(line);
      continue;
    }
    if (!take_line(log, parse_json<Json>(text, what), what)) log.unknown_lines.push_back(line);
  }
  file.check();
  log.sessions = read_sessions(metrics.parent_path());
  VIADUCT_CHECK(IoError, !log.steps.empty(), "{}: no step was logged", metrics.string());
  return log;
}

std::string left_out_text(const RunLog& log, const std::filesystem::path& metrics) {
  constexpr size_t kMost = 8;
  const std::vector<int64_t>& lines = log.unknown_lines;
  std::string text;
  if (!lines.empty()) {
    const size_t shown = std::min(lines.size(), kMost);
    text = fmt::format(
        "{} neither a step, a validation nor an end: {} {}{}",
        counted(static_cast<int64_t>(lines.size()), "of its lines is", "of its lines are"),
        lines.size() == 1 ? "line" : "lines", fmt::join(lines.begin(), lines.begin() + shown, ", "),
        shown < lines.size() ? ", …" : "");
  }
  if (log.truncated) text += std::string(text.empty() ? "" : "; ") + "its last line is incomplete";
  return text.empty() ? "" : fmt::format("{}: not shown: {}", metrics.string(), text);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

MeasuredSteps measured_steps(const RunLog& log) {
  std::vector<double> seconds, communication, data;
  MeasuredSteps measured;
  measured.simulated = log.simulated;
  for (size_t i = 0; i < log.steps.size(); ++i) {
    const LoggedStep& step = log.steps[i];
    measured.peak_memory_bytes = std::max(measured.peak_memory_bytes, step.peak_memory_bytes);
    if (i == 0 && log.steps.size() > 1) continue;
    seconds.push_back(step.step_seconds);
    communication.push_back(step.communication_seconds);
    data.push_back(step.data_seconds);
  }
  measured.steps = static_cast<int64_t>(seconds.size());
  measured.step_seconds = median(std::move(seconds));
  measured.communication_seconds = median(std::move(communication));
  measured.data_seconds = median(std::move(data));
  return measured;
}

}  // namespace viaduct
