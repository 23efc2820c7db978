#include "report/page/run_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/units.h"
#include "report/page/charts.h"
#include "report/page/html_page.h"

namespace viaduct {
namespace {

template <class Get>
Series series_of(const RunLog& log, std::string name, const Get& get) {
  Series series{std::move(name), {}, false};
  for (const LoggedStep& step : log.steps)
    if (const std::optional<double> value = get(step))
      series.points.push_back({static_cast<double>(step.step), *value});
  return series;
}

/// Where the run continued from a checkpoint.
std::vector<std::pair<std::string, double>> marks_of(const RunLog& log) {
  std::vector<std::pair<std::string, double>> marks;
  for (const SessionStart& session : log.sessions) {
    marks.emplace_back(session.changed.empty() ? "resumed" : "resumed, settings changed",
                       static_cast<double>(session.step));
  }
  return marks;
}

void add_sessions(HtmlPage& page, const RunLog& log) {
  if (log.sessions.empty()) return;
  page.section("Sessions");
  std::vector<std::vector<std::string>> rows;
  for (const SessionStart& session : log.sessions) {
    rows.push_back(
        {fmt::format("{}", session.step),
         session.changed.empty() ? "none" : fmt::format("{}", fmt::join(session.changed, "; "))});
  }
  page.table({"resumed at step", "settings that changed"}, rows);
}

/// Adds the smoothed line of the only series of a chart whose values jump.
void add_smoothed(LineChart& chart) {
  const Series& series = chart.series.front();
  Series mean = smoothed(series);
  if (mean.points.empty() || mean.points.size() != series.points.size()) return;
  double least = series.points.front().y, most = least, largest = 0;
  for (size_t i = 0; i < series.points.size(); ++i) {
    least = std::min(least, series.points[i].y);
    most = std::max(most, series.points[i].y);
    largest = std::max(largest, std::abs(series.points[i].y - mean.points[i].y));
  }
  if (largest <= 0.02 * (most - least)) return;
  chart.series.front().faint = true;
  chart.series.push_back(std::move(mean));
}

/// Adds a chart over steps if any step has the figure.
template <class Get>
void chart_of(HtmlPage& page, const RunLog& log, std::string name, std::string unit,
              std::string caption, const Get& get, bool from_zero = false, bool bytes = false) {
  LineChart chart{name + " by step", "step", std::move(unit), {series_of(log, name, get)}, {}};
  chart.from_zero = from_zero;
  chart.bytes = bytes;
  if (chart.series.front().points.empty()) return;
  chart.marks = marks_of(log);
  add_smoothed(chart);
  page.figure(chart.label, draw(chart), caption);
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

template <class Get>
std::optional<double> median_of(const RunLog& log, const Get& get) {
  std::vector<double> values;
  for (size_t i = log.steps.size() > 1 ? 1 : 0; i < log.steps.size(); ++i)
    if (const std::optional<double> value = get(log.steps[i])) values.push_back(*value);
  if (values.empty()) return std::nullopt;
  return median(std::move(values));
}

void add_headlines(HtmlPage& page, const RunLog& log, const MeasuredSteps& run) {
  std::vector<Headline> figures{{fmt::format("{}", log.steps.back().step), "last step"}};
  if (log.tokens > 0) figures.push_back({format_count(static_cast<double>(log.tokens)), "tokens"});
  if (const auto loss = log.steps.back().loss)
    figures.push_back({fmt::format("{:.4f}", *loss), "last loss"});
  for (auto v = log.validations.rbegin(); v != log.validations.rend(); ++v) {
    if (v->test) continue;
    figures.push_back({fmt::format("{:.4f}", v->loss), "last validation loss"});
    break;
  }
  if (log.simulated) {
    figures.push_back({"simulated", "nothing was computed"});
  } else {
    figures.push_back({format_seconds(run.step_seconds), "median step"});
    if (const auto rate = median_of(log, [](const LoggedStep& s) { return s.tokens_per_second; }))
      figures.push_back({format_count(*rate), "tokens/s"});
    if (const auto mfu = median_of(log, [](const LoggedStep& s) { return s.mfu; }))
      figures.push_back({percent(*mfu), "MFU"});
  }
  figures.push_back({format_bytes(run.peak_memory_bytes), "peak memory, fullest rank"});
  page.headlines(figures);
}

void add_loss(HtmlPage& page, const RunLog& log) {
  LineChart chart{"loss by step", "step", "loss", {}, {}};
  if (Series loss = series_of(log, "training", [](const LoggedStep& s) { return s.loss; });
      !loss.points.empty()) {
    chart.series.push_back(std::move(loss));
    add_smoothed(chart);
  }
  std::map<std::string, Series> sets;
  for (const LoggedValidation& v : log.validations) {
    std::string name = v.test ? "test" : "validation";
    if (!v.set.empty()) name += ", " + v.set;
    Series& series = sets[name];
    series.name = name;
    series.dots = v.test;
    series.points.push_back({static_cast<double>(v.step), v.loss});
  }
  for (auto& [name, series] : sets) {
    series.dots = series.dots || series.points.size() < 3;
    chart.series.push_back(std::move(series));
  }
  if (chart.series.empty()) return;
  chart.marks = marks_of(log);
  page.section("Loss");
  page.figure("Loss by step", draw(chart), "Mean over the scored tokens of a step's global batch.");
}

void add_tasks(HtmlPage& page, const RunLog& log) {
  if (log.figures.empty()) return;
  page.section("Tasks");
  struct Figure {
    const char *name, *unit, *caption;
  };
  constexpr Figure kFigures[] = {
      {"acc", "share", "Share of lines whose right choice is the most probable one."},
      {"acc_norm", "share", "The same by log-likelihood a character."},
      {"acc_bytes", "share", "The same by log-likelihood a byte."},
      {"perplexity", "perplexity", "Of the lines with a continuation."}};
  for (const Figure& figure : kFigures) {
    std::map<std::string, Series> tasks;
    for (const LoggedFigure& logged : log.figures) {
      if (logged.name != figure.name) continue;
      Series& series = tasks[logged.task];
      series.name = logged.task;
      series.points.push_back({static_cast<double>(logged.step), logged.value});
    }
    if (tasks.empty()) continue;
    LineChart chart{std::string(figure.name) + " by step", "step", figure.unit, {}, {}};
    for (auto& [task, series] : tasks) {
      series.dots = series.points.size() < 3;
      chart.series.push_back(std::move(series));
    }
    chart.marks = marks_of(log);
    page.figure(chart.label, draw(chart), figure.caption);
  }
}

/// The answers of the last evaluation, and of those before it folded.
void add_answers(HtmlPage& page, const RunLog& log) {
  if (log.answers.empty()) return;
  page.section("Answers");
  const int64_t last = log.answers.back().step;
  std::vector<std::vector<std::string>> rows;
  std::map<int64_t, std::string, std::greater<>> before;
  for (const LoggedAnswer& logged : log.answers) {
    if (logged.step == last) {
      rows.push_back({logged.prompt, logged.answer});
    } else {
      before[logged.step] += logged.prompt + " → " + logged.answer + "\n\n";
    }
  }
  page.paragraph(fmt::format("After step {}, by the most probable tokens.", last));
  page.table({"prompt", "answer"}, rows);
  for (const auto& [step, text] : before) page.details(fmt::format("After step {}", step), text);
}

void add_speed(HtmlPage& page, const RunLog& log, const MeasuredSteps& run) {
  page.section("Speed");
  page.paragraph(fmt::format(
      "The median of {} is {}: {} waiting for communication, {} waiting for data, the rest "
      "computing.",
      counted(run.steps, "step"), format_seconds(run.step_seconds),
      percent(run.communication_seconds / run.step_seconds),
      percent(run.data_seconds / run.step_seconds)));
  chart_of(
      page, log, "tokens/s", "tokens/s", "Tokens a second, of all ranks together.",
      [](const LoggedStep& s) { return s.tokens_per_second; }, true);
  LineChart parts{"seconds of a step", "step", "seconds", {}, {}};
  parts.from_zero = true;
  parts.marks = marks_of(log);
  parts.series.push_back(
      series_of(log, "step", [](const LoggedStep& s) { return std::optional(s.step_seconds); }));
  parts.series.push_back(series_of(log, "waiting for communication", [](const LoggedStep& s) {
    return std::optional(s.communication_seconds);
  }));
  parts.series.push_back(series_of(
      log, "waiting for data", [](const LoggedStep& s) { return std::optional(s.data_seconds); }));
  page.figure("Seconds of a step", draw(parts),
              "Where a step's time goes on the rank that reports.");
  chart_of(
      page, log, "MFU", "share of the peak",
      fmt::format("Model FLOPs utilization, {}; FLOPs counted as {}.",
                  log.mfu_peak.empty() ? "peak unknown" : "of " + log.mfu_peak,
                  log.flop_convention.empty() ? "not in the log" : log.flop_convention),
      [](const LoggedStep& s) { return s.mfu; }, true);
}

/// A chart of each figure of routers that the run logged.
void add_routers(HtmlPage& page, const RunLog& log) {
  struct Figure {
    const char *name, *title, *unit, *caption;
  };
  constexpr Figure kFigures[] = {
      {"entropy", "entropy", "nats", "Of the routers' probabilities over all experts."},
      {"dropped", "dropped choices", "share",
       "Share of the choices of experts that were full, so that tokens passed them by "
       "(model.moe_expert_capacity_factor)."},
      {"padded", "padded rows", "share", "Rows of experts that fill them up to a multiple."},
      {"balance_loss", "balancing loss", "loss", "Without its coefficient; 1 is even load."},
      {"z_loss", "z-loss", "loss", "Without its coefficient."},
      {"bias_spread", "spread of biases", "score", "Largest minus smallest bias of a router."}};
  for (const Figure& figure : kFigures) {
    chart_of(page, log, figure.title, figure.unit,
             std::string(figure.caption) + " Mean over layers.", [&](const LoggedStep& s) {
               const auto found = s.router_means.find(figure.name);
               return found == s.router_means.end() ? std::nullopt : std::optional(found->second);
             });
  }
}

void add_planned(HtmlPage& page, const RunLog& log, const MeasuredSteps& run,
                 const PlannedRun& planned) {
  page.section("Planned against measured");
  const auto row = [](std::string name, double plan, double measured, const auto& text) {
    return std::vector<std::string>{
        std::move(name), text(plan), text(measured),
        plan > 0 ? fmt::format("{:+.1f} %", 100 * (measured / plan - 1)) : "–"};
  };
  const auto bytes = [](double value) { return format_bytes(static_cast<int64_t>(value)); };
  std::vector<std::vector<std::string>> rows;
  if (!log.simulated) {
    rows.push_back(row("step", planned.step_seconds, run.step_seconds, format_seconds));
    rows.push_back(row("waiting for communication", planned.communication_seconds,
                       run.communication_seconds, format_seconds));
  }
  rows.push_back(row("peak memory", static_cast<double>(planned.peak_memory_bytes),
                     static_cast<double>(run.peak_memory_bytes), bytes));
  page.table({"", "planned", "measured", "difference"}, rows);
}

void add_symptoms(HtmlPage& page, const std::vector<Symptom>& symptoms) {
  page.section("Symptoms");
  std::vector<std::vector<std::string>> rows;
  bool any = false;
  for (const Symptom& symptom : symptoms) {
    if (symptom.state == SymptomState::shown) {
      any = true;
      rows.push_back({symptom.name, "seen", symptom.evidence});
      page.note(NoteKind::warning,
                fmt::format("{}: {}. {}", symptom.name, symptom.evidence, symptom.advice));
    } else {
      rows.push_back({symptom.name, symptom.state == SymptomState::absent ? "not seen" : "unknown",
                      symptom.evidence});
    }
  }
  if (!any) page.note(NoteKind::good, "None of the symptoms that this log can show.");
  page.table({"symptom", "seen or not", "figures"}, rows);
}

}  // namespace

std::string run_page(const RunPageInput& input) {
  const RunLog& log = input.log;
  const MeasuredSteps run = measured_steps(log);
  HtmlPage page("Run " + input.name,
                fmt::format("{}, {} to {}{}", counted(std::ssize(log.steps), "logged step"),
                            log.steps.front().step, log.steps.back().step,
                            log.stopped.empty() ? "" : ", stopped: " + log.stopped));
  add_headlines(page, log, run);
  if (log.truncated)
    page.note(NoteKind::warning,
              "The last line of the log is incomplete: the run was killed while it wrote, or still "
              "writes.");
  add_loss(page, log);
  add_tasks(page, log);
  add_answers(page, log);
  chart_of(
      page, log, "gradient norm", "norm", "Global norm of the gradient, before clipping.",
      [](const LoggedStep& s) { return s.grad_norm; }, true);
  chart_of(
      page, log, "learning rate", "learning rate", "Learning rate.",
      [](const LoggedStep& s) { return s.learning_rate; }, true);
  if (!log.simulated) add_speed(page, log, run);
  page.section("Memory");
  chart_of(
      page, log, "peak memory", "bytes", "Bytes in use at the peak of the fullest rank.",
      [](const LoggedStep& s) { return std::optional(static_cast<double>(s.peak_memory_bytes)); },
      true, true);
  if (!input.router_load.empty()) {
    page.section("Experts");
    page.image("Load of experts", input.router_load,
               "Share of each expert in each layer, as last drawn by the run.");
    chart_of(page, log, "largest load", "equal shares",
             "Load of the most loaded expert of any layer; 1 is an equal share.",
             [](const LoggedStep& s) { return s.expert_load; });
    add_routers(page, log);
  }
  add_sessions(page, log);
  if (input.planned) add_planned(page, log, run, *input.planned);
  add_symptoms(page, find_symptoms(log, input.planned));
  if (!input.config.empty()) {
    page.section("Configuration");
    page.details("The resolved configuration", input.config);
  }
  return page.document();
}

}  // namespace viaduct
