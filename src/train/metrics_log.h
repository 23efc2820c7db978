#pragma once
// One call for each event of a run; it feeds metrics.jsonl, TensorBoard and the display, as far as
// they are wanted. Used by the rank that reports.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "train/metrics.h"
#include "train/tensorboard_events.h"

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

/// Metrics are worth less than the run: a file that cannot be made or written costs its lines, a
/// warning at the first of them and one line of `problems`, and the run goes on. Each line is tried
/// anew, so that a disk that has space again goes on being written.
class MetricsLog {
 public:
  explicit MetricsLog(const MetricsLogOptions& options);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  /// After every step. Logged steps go to all writers, the others only move the bar; `skipped` is
  /// added up over the steps since the last logged one.
  void step(const StepMetrics& metrics);
  /// Of validation or test data.
  void validation(const ValidationMetrics& metrics);
  /// The loss of a validation at `steps_done` that an earlier session has in metrics.jsonl (NaN for
  /// one that was not finite); nothing if there is none. `set`: of which data set, where there are
  /// several.
  std::optional<double> validation_before(std::optional<int64_t> set = std::nullopt) const;
  /// Whether metrics.jsonl has the test at `steps_done` of an earlier session.
  bool test_before() const;
  /// The run ends before its last step: "signal", "error", ….
  void stopped(int64_t step, const std::string& reason);
  /// Text for people only.
  void note(const std::string& text);
  /// Hands all that was written to the disk: what a checkpoint is published with does not go where
  /// the checkpoint stays.
  void sync();

  /// What could not be written so far, one line for each file.
  std::vector<std::string> problems() const;

 private:
  /// Made when there is something to write: a session without news leaves no file.
  TensorBoardWriter* tensorboard();
  struct Losses {
    int64_t count = 0;
    std::string what;  // of the first
  };
  /// Runs `write`; an error of files is counted in `losses` and said when it is the first.
  void attempt(Losses& losses, FunctionRef<void()> write);
  /// False if the file has the line of that step already.
  bool write_line(const std::string& line);
  void write_event(int64_t step, std::span<const tensorboard::Scalar> scalars);

  MetricsLogOptions options_;
  Losses lost_lines_, lost_events_;
  int64_t skipped_ = 0;
  std::unique_ptr<MetricsFile> file_;
  std::unique_ptr<TensorBoardWriter> tensorboard_;
  std::unique_ptr<ProgressDisplay> display_;
};

}  // namespace viaduct
