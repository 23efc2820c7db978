#include "optim/batch_schedule.h"
#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace viaduct {

int64_t BatchSchedule::rounded(int64_t rows) const {
  return settings_.round_down ? rows / settings_.multiple * settings_.multiple : rows;
}

int64_t BatchSchedule::increments() const {
  const BatchRamp& ramp = *settings_.ramp;
  return (settings_.full - ramp.start) / ramp.increment;
}

std::vector<std::string> BatchSchedule::problems() const {
  std::vector<std::string> found;
  const auto expect = [&](bool holds, std::string problem) {
    if (!holds) found.push_back(std::move(problem));
  };
  const BatchScheduleSettings& s = settings_;
  if (s.round_down) {
    expect(
        s.full >= s.multiple,
        fmt::format("train.global_batch_size: {} is below micro_batch_size · data-parallel ranks "
                    "= {}: rounded down it is 0",
                    s.full, s.multiple));
  }
  if (!s.ramp) return found;
  const BatchRamp& ramp = *s.ramp;
  const char* name = "train.rampup_batch_size";
  expect(ramp.start >= 1 && ramp.increment >= 1 && ramp.samples >= 0,
         fmt::format("{}: start and increment are at least 1 and rows at least 0, found {}, {}, {}",
                     name, ramp.start, ramp.increment, ramp.samples));
  if (!found.empty()) return found;
  const int64_t growth = s.full - ramp.start;
  expect(growth >= 0, fmt::format("{}: starts with {}, above global_batch_size = {}", name,
                                  counted(ramp.start, "row"), s.full));
  expect(growth < 0 || growth % ramp.increment == 0,
         fmt::format("{}: global_batch_size - start = {} - {} = {} is not a multiple of the "
                     "increment {}",
                     name, s.full, ramp.start, growth, ramp.increment));
  if (s.round_down) {
    expect(ramp.start >= s.multiple,
           fmt::format("{}: {} below micro_batch_size · data-parallel ranks = "
                       "{}: rounded down 0 are left",
                       name, counted(ramp.start, "row at the start is", "rows at the start are"),
                       s.multiple));
  } else {
    expect(ramp.start % s.multiple == 0 && (growth <= 0 || ramp.increment % s.multiple == 0),
           fmt::format("{}: start {} and increment {} are not both multiples of micro_batch_size · "
                       "data-parallel ranks = {}; train.decrease_batch_size_if_needed=true rounds "
                       "each batch down",
                       name, ramp.start, ramp.increment, s.multiple));
  }
  return found;
}

BatchSchedule::Stretch BatchSchedule::stretch_at(int64_t consumed) const {
  const auto& ramp = settings_.ramp;
  if (!ramp || consumed >= ramp->samples || increments() == 0) return {full()};
  // Increment k comes when k / increments of the ramp's rows are consumed. Fields are bounded so
  // that the products are numbers.
  const int64_t steps_up = increments(), k = consumed * steps_up / ramp->samples;
  const int64_t next = ((k + 1) * ramp->samples + steps_up - 1) / steps_up;
  const int64_t rows = rounded(ramp->start + k * ramp->increment);
  return {rows, (next - consumed + rows - 1) / rows};
}

int64_t BatchSchedule::samples_after(int64_t steps, int64_t consumed) const {
  while (steps > 0) {
    const Stretch stretch = stretch_at(consumed);
    const int64_t now = std::min(steps, stretch.steps);
    consumed += now * stretch.rows;
    steps -= now;
  }
  return consumed;
}

int64_t BatchSchedule::steps_within(int64_t samples, int64_t consumed) const {
  int64_t steps = 0;
  while (consumed < samples) {
    const Stretch stretch = stretch_at(consumed);
    const int64_t now = std::min((samples - consumed) / stretch.rows, stretch.steps);
    steps += now;
    consumed += now * stretch.rows;
    if (now < stretch.steps) break;  // the next one does not fit
  }
  return steps;
}

std::vector<BatchSchedule::Size> BatchSchedule::sizes() const {
  std::vector<Size> list;
  int64_t step = 1, consumed = 0;
  while (true) {
    const Stretch stretch = stretch_at(consumed);
    if (list.empty() || list.back().rows != stretch.rows) list.push_back({step, stretch.rows});
    if (stretch.steps == std::numeric_limits<int64_t>::max()) return list;
    step += stretch.steps;
    consumed += stretch.steps * stretch.rows;
  }
}

}  // namespace viaduct
