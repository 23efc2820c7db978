#pragma once
// Rows of each step as a pure function of the rows consumed so far: constant, or growing from a
// small batch to the full one (Megatron's rampup_batch_size). A resumed run needs no other state.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace viaduct {

/// The batch grows from `start` by `increment` at equal intervals of consumed rows, and is full
/// once `samples` rows are consumed.
struct BatchRamp {
  int64_t start = 1, increment = 1, samples = 0;
};

struct BatchScheduleSettings {
  int64_t full = 1;  // rows of a step when the ramp is over
  std::optional<BatchRamp> ramp;
  /// Rows of one micro-batch on all data ranks (micro-batch size · data ranks): each size is a
  /// multiple of it …
  int64_t multiple = 1;
  bool round_down = false;  // … or is rounded down to one
};

class BatchSchedule {
 public:
  /// Every step takes `rows`.
  BatchSchedule(int64_t rows) : BatchSchedule(BatchScheduleSettings{rows, {}, 1, false}) {}
  explicit BatchSchedule(const BatchScheduleSettings& settings) : settings_(settings) {}

  /// Errors in the settings, each with the numbers; if there are any, no other function may be
  /// called.
  std::vector<std::string> problems() const;

  /// Rows of a step when the ramp is over: no step takes more.
  int64_t full() const { return rounded(settings_.full); }
  /// Rows of the step that begins when `consumed` rows are.
  int64_t rows_at(int64_t consumed) const { return stretch_at(consumed).rows; }
  /// Rows consumed when `steps` more steps are done from `consumed` on.
  int64_t samples_after(int64_t steps, int64_t consumed = 0) const;
  /// Whole steps from `consumed` on before more than `samples` rows are consumed in total.
  int64_t steps_within(int64_t samples, int64_t consumed = 0) const;

  /// Steps of one size in a row.
  struct Size {
    int64_t first_step = 1;  // number of the first of them
    int64_t rows = 0;
  };
  /// From the first step of a run to that of the full batch.
  std::vector<Size> sizes() const;

 private:
  struct Stretch {
    int64_t rows = 0;
    int64_t steps = std::numeric_limits<int64_t>::max();  // of this size; max: without end
  };
  Stretch stretch_at(int64_t consumed) const;
  int64_t rounded(int64_t rows) const;
  int64_t increments() const;

  BatchScheduleSettings settings_;
};

}  // namespace viaduct
