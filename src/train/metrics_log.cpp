#include "train/metrics_log.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "train/metrics_file.h"
#include "train/progress.h"
#include "train/tensorboard_writer.h"

namespace viaduct {
namespace {

std::vector<tensorboard::Scalar> scalars_of(const StepMetrics& m) {
  std::vector<tensorboard::Scalar> scalars;
  const auto add = [&](const char* tag, const std::optional<double>& value) {
    if (value) scalars.push_back({tag, *value});
  };
  add("train/loss", m.loss);
  add("train/grad_norm", m.grad_norm);
  add("train/learning_rate", m.learning_rate);
  add("train/skipped", static_cast<double>(m.skipped));
  add("train/loss_scale", m.loss_scale);
  add("speed/step_seconds", m.step_seconds);
  add("speed/tokens_per_second", m.tokens_per_second);
  add("speed/tflops_per_rank", m.tflops_per_rank);
  add("speed/mfu", m.mfu);
  add("speed/communication_seconds", m.communication_seconds);
  add("speed/data_seconds", m.data_seconds);
  add("memory/peak_bytes", static_cast<double>(m.peak_memory_bytes()));
  return scalars;
}

}  // namespace

MetricsLog::MetricsLog(const MetricsLogOptions& options) : options_(options) {
  VIADUCT_CHECK(ConfigError, options.log_interval >= 1,
                "logger.log_interval must be at least 1, found {}", options.log_interval);
  if (!options.folder.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.folder, error);
    VIADUCT_CHECK(IoError, !error, "{}: cannot make the folder: {}", options.folder.string(),
                  error.message());
    file_ = std::make_unique<MetricsFile>(options.folder / "metrics.jsonl", options.steps_done);
  }
  if (!options.tensorboard_folder.empty()) {
    const std::optional<int64_t> first =
        options.steps_done > 0 ? std::optional(options.steps_done + 1) : std::nullopt;
    tensorboard_ = std::make_unique<TensorBoardWriter>(options.tensorboard_folder, first);
  }
  if (options.display != nullptr) {
    display_ = std::make_unique<ProgressDisplay>(options.display, options.display_is_terminal,
                                                 options.total_steps);
  }
}

MetricsLog::~MetricsLog() = default;

void MetricsLog::step(const StepMetrics& metrics) {
  skipped_ += metrics.skipped;
  if (display_) display_->advance(metrics.step, metrics.step_seconds);
  if (metrics.step % options_.log_interval != 0 && metrics.step != options_.total_steps) return;
  StepMetrics logged = metrics;
  logged.skipped = skipped_;
  skipped_ = 0;
  if (file_) file_->write(json_line(logged));
  if (tensorboard_) tensorboard_->write(logged.step, scalars_of(logged));
  if (display_) display_->log(logged);
}

void MetricsLog::validation(const ValidationMetrics& metrics) {
  if (file_) file_->write(json_line(metrics));
  if (tensorboard_) {
    const tensorboard::Scalar scalars[] = {{"validation/loss", metrics.validation_loss}};
    tensorboard_->write(metrics.step, scalars);
  }
  note(fmt::format("step {} | validation loss {:.4f} (perplexity {:.4g})", metrics.step,
                   metrics.validation_loss, std::exp(metrics.validation_loss)));
}

void MetricsLog::stopped(int64_t step, const std::string& reason) {
  if (file_) file_->write(json_stopped_line(step, reason));
  note(fmt::format("stopped after step {}: {}", step, reason));
}

void MetricsLog::note(const std::string& text) {
  if (display_) display_->note(text);
}

}  // namespace viaduct
