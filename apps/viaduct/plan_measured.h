#pragma once
// `viaduct plan --config FILE --measured METRICS`: what was planned beside what a run measured.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/predict.h"

namespace viaduct::cli {

/// The figures of a run's steps, from its metrics.jsonl. The first step, which touches all memory
/// for the first time, counts only if there is no other.
struct MeasuredSteps {
  int64_t steps = 0;
  double step_seconds = 0;           // the median
  double communication_seconds = 0;  // the median: what compute waited for
  int64_t peak_memory_bytes = 0;     // the most, over steps and ranks
  bool simulated = false;            // by a run on the sim device: its seconds are not a machine's
};

/// IoError if the file cannot be read, has no line of a step, or its lines are not those of
/// metrics.jsonl.
MeasuredSteps read_measured_steps(const std::filesystem::path& metrics);

/// One quantity, planned and measured. `share`: measured over planned, minus 1; null without both.
struct PlannedFigure {
  std::string name, unit;
  double planned = 0, measured = 0;
  std::optional<double> share() const {
    return planned > 0 ? std::optional(measured / planned - 1) : std::nullopt;
  }
};

std::vector<PlannedFigure> planned_figures(const Prediction& planned,
                                           const MeasuredSteps& measured);

nlohmann::ordered_json measured_json(const Prediction& planned, const MeasuredSteps& measured);
void print_measured(const Prediction& planned, const MeasuredSteps& measured);

}  // namespace viaduct::cli
