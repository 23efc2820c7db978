#pragma once
// One call for each event of a run; it feeds metrics.jsonl, TensorBoard and the display, if
// enabled. Used by the reporting rank.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "report/metrics.h"
#include "report/tensorboard_events.h"

namespace viaduct {

class MetricsFile;
class ProgressDisplay;
class TensorBoardWriter;

struct MetricsLogOptions {
  /// Holds metrics.jsonl (made if missing); empty: no file.
  std::filesystem::path folder;
  /// Holds TensorBoard's event files (made if missing); empty: none.
  std::filesystem::path tensorboard_folder;
  /// Display of the lines; null: none.
  std::FILE* display = nullptr;
  bool display_is_terminal = false;
  /// Steps done before this session (0: this run continues none), and steps of the whole run.
  int64_t steps_done = 0;
  int64_t total_steps = 0;
  /// Steps between logged ones (`logger.log_interval`), ≥ 1. The last step is always logged.
  int64_t log_interval = 10;
};

/// A file that cannot be created or written does not stop the run: its lines are lost, with a
/// warning for the first and one line of `problems`. Each line is tried again, so that writing
/// resumes when a disk has space again.
class MetricsLog {
 public:
  explicit MetricsLog(const MetricsLogOptions& options);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  /// After every step. Logged steps go to all writers, the others only move the bar; `skipped`
  /// and `nothing_scored` are added up over the steps since the last logged one.
  void step(const StepMetrics& metrics);
  /// Of validation or test data.
  void validation(const ValidationMetrics& metrics);
  void tasks(const TaskMetrics& metrics);
  void answers(const AnswerMetrics& metrics);
  /// The loss of a validation at `steps_done` that an earlier session has in metrics.jsonl (NaN for
  /// one that was not finite); nothing if there is none. `set`: of which data set, where there are
  /// several.
  std::optional<double> validation_before(std::optional<int64_t> set = std::nullopt) const;
  /// Whether metrics.jsonl has the test at `steps_done` of an earlier session.
  bool test_before() const;
  /// The same of an evaluation on tasks.
  bool tasks_before() const;
  /// The run ended before its last step: "signal", "error", ….
  void stopped(int64_t step, const std::string& reason);
  /// Text for people only.
  void note(const std::string& text);
  /// Flushes everything to disk, so that lines before a published checkpoint are not lost while the
  /// checkpoint remains.
  void sync();

  /// Write failures so far, one line for each file.
  std::vector<std::string> problems() const;

 private:
  /// Created at the first record: a session without records leaves no file.
  TensorBoardWriter* tensorboard();
  struct Losses {
    int64_t count = 0;
    std::string what;  // of the first
  };
  /// Runs `write`; a file error is counted in `losses`, and the first is logged.
  void attempt(Losses& losses, FunctionRef<void()> write);
  /// False if the file has the line of that step already.
  bool write_line(const std::string& line);
  void write_event(int64_t step, std::span<const tensorboard::Scalar> scalars);

  MetricsLogOptions options_;
  Losses lost_lines_, lost_events_;
  int64_t skipped_ = 0, nothing_scored_ = 0;
  /// Of the finite values of a figure since the last logged step.
  struct Mean {
    void add(double value);
    /// NaN where there are none.
    double mean() const;
    double sum = 0;
    int64_t count = 0;
  };
  Mean loss_;
  std::vector<Mean> mtp_losses_;
  std::unique_ptr<MetricsFile> file_;
  std::unique_ptr<TensorBoardWriter> tensorboard_;
  std::unique_ptr<ProgressDisplay> display_;
};

}  // namespace viaduct
