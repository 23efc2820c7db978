#pragma once
// One call for each event of a run; it feeds metrics.jsonl, TensorBoard and the display, as far as
// they are wanted. Used by the rank that reports.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "train/metrics.h"

namespace viaduct {

class MetricsFile;
class ProgressDisplay;
class TensorBoardWriter;

struct MetricsLogOptions {
  /// Holds metrics.jsonl (made if missing); empty: no file.
  std::filesystem::path folder;
  /// Holds TensorBoard's event files (made if missing); empty: none.
  std::filesystem::path tensorboard_folder;
  /// Where lines for people go; null: nowhere.
  std::FILE* display = nullptr;
  bool display_is_terminal = false;
  /// Steps done before this session (0: this run continues none), and when the run is done.
  int64_t steps_done = 0;
  int64_t total_steps = 0;
  /// Steps between logged ones (`logger.log_interval`), ≥ 1. The last step is always logged.
  int64_t log_interval = 10;
};

class MetricsLog {
 public:
  explicit MetricsLog(const MetricsLogOptions& options);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  /// After every step. Logged steps go to all writers, the others only move the bar; `skipped` is
  /// added up over the steps since the last logged one.
  void step(const StepMetrics& metrics);
  void validation(const ValidationMetrics& metrics);
  /// The loss of a validation at `steps_done` that an earlier session has in metrics.jsonl (NaN for
  /// one that was not finite); nothing if there is none.
  std::optional<double> validation_before() const;
  /// The run ends before its last step: "signal", "error", ….
  void stopped(int64_t step, const std::string& reason);
  /// Text for people only.
  void note(const std::string& text);
  /// Hands all that was written to the disk: what a checkpoint is published with does not go where
  /// the checkpoint stays.
  void sync();

 private:
  /// Made when there is something to write: a session without news leaves no file.
  TensorBoardWriter* tensorboard();

  MetricsLogOptions options_;
  int64_t skipped_ = 0;
  std::unique_ptr<MetricsFile> file_;
  std::unique_ptr<TensorBoardWriter> tensorboard_;
  std::unique_ptr<ProgressDisplay> display_;
};

}  // namespace viaduct
