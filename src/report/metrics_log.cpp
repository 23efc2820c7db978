#include "report/metrics_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/log.h"
#include "base/units.h"
#include "report/metrics_file.h"
#include "report/progress.h"
#include "report/tensorboard_writer.h"

namespace viaduct {
namespace {

/// A text for the screen; line breaks as \n, like the first row of a run.
std::string on_one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      line += "\\n";
    } else {
      line += c;
    }
  }
  return shown_name(line);
}

std::vector<tensorboard::Scalar> scalars_of(const StepMetrics& m) {
  std::vector<tensorboard::Scalar> scalars;
  const auto add = [&](const std::string& tag, const std::optional<double>& value) {
    if (value) scalars.push_back({tag, *value});
  };
  add("train/loss", m.loss);
  for (size_t depth = 0; depth < m.mtp_losses.size(); ++depth)
    add(fmt::format("train/mtp_{}_loss", depth + 1), m.mtp_losses[depth]);
  add("train/grad_norm", m.grad_norm);
  add("train/learning_rate", m.learning_rate);
  add("train/skipped", static_cast<double>(m.skipped));
  if (m.nothing_scored > 0) add("train/nothing_scored", static_cast<double>(m.nothing_scored));
  add("train/loss_scale", m.loss_scale);
  add("train/params_norm", m.params_norm);
  if (m.num_zeros_in_grad)
    add("train/num_zeros_in_grad", static_cast<double>(*m.num_zeros_in_grad));
  add("train/global_batch_size", static_cast<double>(m.step_samples));
  add("speed/step_seconds", m.step_seconds);
  if (m.with_rates) {
    add("speed/tokens_per_second", m.tokens_per_second);
    add("speed/tflops_per_rank", m.tflops_per_rank);
    add("speed/mfu", m.mfu);
  }
  add("speed/communication_seconds", m.communication_seconds);
  add("speed/data_seconds", m.data_seconds);
  add("memory/peak_bytes", static_cast<double>(m.peak_memory_bytes));
  for (const auto& [name, value] : m.memory) add("memory/" + name, value);
  for (const auto& [name, range] : m.timers) add("timers/" + name, range.most);
  for (const auto& [name, figure] : m.routers) {
    add("routers/" + name + "_min", figure.least);
    add("routers/" + name + "_mean", figure.mean);
    add("routers/" + name + "_max", figure.most);
  }
  for (const LayerRouting& layer : m.router_layers) {
    for (const auto& [name, value] : layer_figures(layer))
      add(fmt::format("routers/layer_{}/{}", layer.layer, name), value);
  }
  return scalars;
}

/// "acc 0.5000 ± 0.1508, perplexity 12.3".
std::string figures_text(const TaskFigures& figures) {
  std::string text;
  for (const auto& [name, value] : named_figures(figures))
    text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", name, value);
  return fmt::format("{} ({})", text, counted(figures.lines, "line"));
}

/// Shown as it is, not as Markdown, which TensorBoard reads.
std::string as_code(const std::string& text) {
  std::string code = "    ";
  for (const char c : text) {
    code += c;
    if (c == '\n') code += "    ";
  }
  return code;
}

bool has_event_files(const std::filesystem::path& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().filename().string().starts_with("events.out.tfevents.")) return true;
  }
  return false;
}

}  // namespace

MetricsLog::MetricsLog(const MetricsLogOptions& options) : options_(options) {
  VIADUCT_CHECK(ConfigError, options.log_interval >= 1,
                "logger.log_interval must be at least 1, found {}", options.log_interval);
  if (options.display != nullptr) {
    display_ = std::make_unique<ProgressDisplay>(options.display, options.display_is_terminal,
                                                 options.total_steps);
  }
  if (!options.folder.empty()) {
    attempt(lost_lines_, [&] {
      std::error_code error;
      std::filesystem::create_directories(options.folder, error);
      VIADUCT_CHECK(IoError, !error, "{}: cannot make the folder: {}", options.folder.string(),
                    error.message());
      file_ = std::make_unique<MetricsFile>(options.folder / "metrics.jsonl", options.steps_done);
    });
  }
  if (!options.tensorboard_folder.empty()) {
    attempt(lost_events_, [&] {
      std::error_code error;
      std::filesystem::create_directories(options.tensorboard_folder, error);
      VIADUCT_CHECK(IoError, !error, "{}: cannot make the folder: {}",
                    options.tensorboard_folder.string(), error.message());
    });
  }
}

MetricsLog::~MetricsLog() = default;

TensorBoardWriter* MetricsLog::tensorboard() {
  const auto& folder = options_.tensorboard_folder;
  if (!tensorboard_ && !folder.empty()) {
    // Readers drop other sessions' records of later steps: of all steps, if this run continues
    // none.
    std::optional<int64_t> first;
    if (options_.steps_done > 0 || has_event_files(folder))
      first = options_.steps_done > 0 ? options_.steps_done + 1 : 0;
    tensorboard_ = std::make_unique<TensorBoardWriter>(folder, first);
  }
  return tensorboard_.get();
}

std::optional<double> MetricsLog::validation_before(std::optional<int64_t> set) const {
  const std::string text = file_ ? file_->validation_before(set) : "";
  if (text.empty()) return std::nullopt;
  const auto line = parse_json<nlohmann::json>(text, "metrics.jsonl");
  const auto& loss = line.at("validation_loss");
  return loss.is_number() ? loss.get<double>() : std::nan("");
}

bool MetricsLog::tasks_before() const {
  return file_ && file_->tasks_before();
}

bool MetricsLog::test_before() const {
  return file_ && file_->test_before();
}

void MetricsLog::sync() {
  try {
    if (file_) file_->sync();
    if (tensorboard_) tensorboard_->sync();
  } catch (const std::exception& error) {
    log_warning("{}", error.what());  // not worth losing a checkpoint
  }
}

void MetricsLog::Mean::add(double value) {
  if (!std::isfinite(value)) return;
  sum += value;
  ++count;
}

double MetricsLog::Mean::mean() const {
  return sum / static_cast<double>(count);
}

void MetricsLog::step(const StepMetrics& metrics) {
  skipped_ += metrics.skipped;
  nothing_scored_ += metrics.nothing_scored;
  if (metrics.loss) loss_.add(*metrics.loss);
  // A step that is skipped, or scores nothing, has none.
  mtp_losses_.resize(std::max(mtp_losses_.size(), metrics.mtp_losses.size()));
  for (size_t depth = 0; depth < metrics.mtp_losses.size(); ++depth)
    mtp_losses_[depth].add(metrics.mtp_losses[depth]);
  if (display_) display_->advance(metrics.step, metrics.step_seconds);
  if (metrics.step % options_.log_interval != 0 && metrics.step != options_.total_steps) return;
  StepMetrics logged = metrics;
  logged.skipped = std::exchange(skipped_, 0);
  logged.nothing_scored = std::exchange(nothing_scored_, 0);
  if (loss_.count > 0) logged.interval_loss = loss_.mean();
  for (const Mean& loss : mtp_losses_) logged.interval_mtp_losses.push_back(loss.mean());
  loss_ = {}, mtp_losses_.clear();
  if (write_line(json_line(logged))) write_event(logged.step, scalars_of(logged));
  if (display_) display_->log(logged);
}

void MetricsLog::validation(const ValidationMetrics& metrics) {
  const std::string kind = metrics.test ? "test" : "validation";
  const std::string number = metrics.set ? fmt::format("-{}", *metrics.set) : "";
  if (write_line(json_line(metrics))) {
    const std::string tag = fmt::format("{}/loss{}", kind, number);
    const tensorboard::Scalar scalars[] = {{tag.c_str(), metrics.validation_loss}};
    write_event(metrics.step, scalars);
  }
  const std::string of = metrics.set ? fmt::format(" of {}", metrics.set_name) : "";
  note(fmt::format("step {} | {}{} loss{} {:.4f} (perplexity {:.4g})", metrics.step, kind, number,
                   of, metrics.validation_loss, std::exp(metrics.validation_loss)));
}

void MetricsLog::tasks(const TaskMetrics& metrics) {
  if (write_line(json_line(metrics))) {
    std::vector<tensorboard::Scalar> scalars;
    for (const TaskFigures& figures : metrics.tasks) {
      for (const auto& [name, value] : named_figures(figures))
        scalars.push_back({fmt::format("validation/{}/{}", figures.task, name), value});
    }
    write_event(metrics.step, scalars);
  }
  for (const TaskFigures& figures : metrics.tasks)
    note(fmt::format("step {} | task {}: {}", metrics.step, figures.task, figures_text(figures)));
}

void MetricsLog::answers(const AnswerMetrics& metrics) {
  if (write_line(json_line(metrics))) {
    std::vector<tensorboard::Text> texts;
    for (size_t i = 0; i < metrics.answers.size(); ++i) {
      const auto& [prompt, answer] = metrics.answers[i];
      texts.push_back({fmt::format("validation/answers/{}", i + 1),
                       as_code(prompt) + "\n\nis continued by\n\n" + as_code(answer)});
    }
    attempt(lost_events_, [&] {
      if (TensorBoardWriter* board = tensorboard()) board->write(metrics.step, texts);
    });
  }
  for (const auto& [prompt, answer] : metrics.answers)
    note(fmt::format("step {} | {} → {}", metrics.step, on_one_line(prompt), on_one_line(answer)));
}

void MetricsLog::stopped(int64_t step, const std::string& reason) {
  if (file_) attempt(lost_lines_, [&] { file_->write(json_stopped_line(step, reason)); });
  note(fmt::format("stopped after step {}: {}", step, reason));
}

bool MetricsLog::write_line(const std::string& line) {
  bool news = true;  // if a line is lost, TensorBoard may still have it
  if (file_) attempt(lost_lines_, [&] { news = file_->write(line); });
  return news;
}

void MetricsLog::write_event(int64_t step, std::span<const tensorboard::Scalar> scalars) {
  attempt(lost_events_, [&] {
    if (TensorBoardWriter* board = tensorboard()) board->write(step, scalars);
  });
}

void MetricsLog::attempt(Losses& losses, FunctionRef<void()> write) {
  std::string what;
  try {
    return write();
  } catch (const std::exception& error) {  // also of the standard library's file operations
    what = error.what();
  }
  if (++losses.count > 1) return;
  note(fmt::format("warning: {}; the run continues without it", what));
  losses.what = std::move(what);
}

std::vector<std::string> MetricsLog::problems() const {
  std::vector<std::string> lines;
  const auto add = [&](const char* what, const Losses& losses, bool open) {
    if (losses.count == 0) return;
    lines.push_back(open ? fmt::format("{} {} not written, the first because of: {}", losses.count,
                                       what, losses.what)
                         : fmt::format("no {} written: {}", what, losses.what));
  };
  add("lines of metrics.jsonl", lost_lines_, file_ != nullptr);
  add("TensorBoard events", lost_events_, tensorboard_ != nullptr);
  return lines;
}

void MetricsLog::note(const std::string& text) {
  if (display_) display_->note(text);
}

}  // namespace viaduct
