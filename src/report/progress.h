#pragma once
// The display of a run: a line for each logged step, and on a terminal a progress bar below them.

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "report/metrics.h"

namespace viaduct {

/// "step 120/2000 | loss 3.4567 | lr 0.0003 | grad norm 1.25 | 12.3k tokens/s | MFU 23.1 % of FP32
/// FMA AVX2, 0.4 TFLOP/s … | 1.20 GiB | ETA 3m07s". With several ranks "… TFLOP/s … a rank | at
/// most 1.20 GiB a rank"; with experts "… | experts 0.41 to 1.83 of an even load". Losses are
/// means of the steps since the last line.
std::string progress_line(const StepMetrics& metrics, int64_t total_steps,
                          double remaining_seconds);

/// "[#####-------------------] 120/2000 6 % ETA 3m07s".
std::string progress_bar(int64_t step, int64_t total_steps, double remaining_seconds);

class ProgressDisplay {
 public:
  /// `out` is not owned; the application passes standard error and whether it is a terminal.
  ProgressDisplay(std::FILE* out, bool is_terminal, int64_t total_steps);
  /// Clears the bar.
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  /// After every step: remembers its time for the estimate and moves the bar.
  void advance(int64_t step, double step_seconds);
  /// A line for a logged step.
  void log(const StepMetrics& metrics);
  /// A line of text above the bar.
  void note(std::string_view text);

  /// Time left after `step`, from the average of recent steps (each new one weighs a tenth); 0
  /// before the first.
  double remaining_seconds(int64_t step) const;

 private:
  void write(std::string text);

  std::FILE* out_;
  bool is_terminal_;
  int64_t total_steps_;
  double average_seconds_ = 0;
  std::string bar_;
};

}  // namespace viaduct
