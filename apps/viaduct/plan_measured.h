#pragma once
// `viaduct plan --config FILE --measured METRICS`: the plan compared with what a run measured.

#include <string>
#include <vector>

#include "base/json.h"
#include "plan/predict.h"
#include "report/run_log.h"

namespace viaduct::cli {

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
