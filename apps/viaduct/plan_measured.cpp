#include "plan_measured.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/units.h"

namespace viaduct::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const PlannedFigure& figure, double value) {
  return figure.unit == "s" ? format_seconds(value) : format_bytes(static_cast<int64_t>(value));
}

}  // namespace

std::vector<PlannedFigure> planned_figures(const Prediction& planned,
                                           const MeasuredSteps& measured) {
  double peak = 0, exposed = 0;
  for (const StagePrediction& stage : planned.stages) {
    peak = std::max(peak, static_cast<double>(stage.run.peak.bytes));
    double of_stage = stage.time.bubble;
    for (const auto& [group, seconds] : stage.time.exposed) of_stage += seconds;
    exposed = std::max(exposed, of_stage);
  }
  return {{"step", "s", planned.step_seconds, measured.step_seconds},
          {"waiting for communication", "s", exposed, measured.communication_seconds},
          {"peak memory", "bytes", peak, static_cast<double>(measured.peak_memory_bytes)}};
}

Json measured_json(const Prediction& planned, const MeasuredSteps& measured) {
  Json figures = Json::array();
  for (const PlannedFigure& figure : planned_figures(planned, measured)) {
    figures.push_back({{"name", figure.name},
                       {"unit", figure.unit},
                       {"planned", figure.planned},
                       {"measured", figure.measured},
                       {"difference", figure.share() ? Json(*figure.share()) : Json()}});
  }
  return {{"steps", measured.steps},
          {"simulated", measured.simulated},
          {"figures", std::move(figures)}};
}

void print_measured(const Prediction& planned, const MeasuredSteps& measured) {
  fmt::print(
      "measured, the median of {}{}:\n", counted(measured.steps, "step"),
      measured.simulated ? " of a simulated run: its seconds were not measured on a machine" : "");
  fmt::print("  {:<26} {:>12} {:>12} {:>11}\n", "", "planned", "measured", "difference");
  for (const PlannedFigure& figure : planned_figures(planned, measured)) {
    fmt::print("  {:<26} {:>12} {:>12} {:>11}\n", figure.name, text_of(figure, figure.planned),
               text_of(figure, figure.measured),
               figure.share() ? fmt::format("{:+.1f} %", 100 * *figure.share()) : "–");
  }
}

}  // namespace viaduct::cli
