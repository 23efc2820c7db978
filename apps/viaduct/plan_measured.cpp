#include "plan_measured.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json_reader.h"
#include "base/units.h"

namespace viaduct::cli {
namespace {

using Json = nlohmann::ordered_json;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double number(const Json& line, const char* name, const std::string& what) {
  const auto found = line.find(name);
  VIADUCT_CHECK(IoError, found != line.end() && found->is_number(), "{}: {} is missing", what,
                name);
  return found->get<double>();
}

std::string text_of(const PlannedFigure& figure, double value) {
  return figure.unit == "s" ? format_seconds(value) : format_bytes(static_cast<int64_t>(value));
}

}  // namespace

MeasuredSteps read_measured_steps(const std::filesystem::path& metrics) {
  std::istringstream in(read_file(metrics, int64_t{1} << 30));
  std::vector<double> seconds, communication;
  MeasuredSteps steps;
  int64_t number_of_line = 0;
  for (std::string text; std::getline(in, text);) {
    const std::string what = fmt::format("{}, line {}", metrics.string(), ++number_of_line);
    const Json line = parse_json<Json>(text, what);
    VIADUCT_CHECK(IoError, line.is_object(), "{}: expected an object", what);
    if (!line.contains("step_seconds")) continue;  // of a validation
    seconds.push_back(number(line, "step_seconds", what));
    communication.push_back(number(line, "communication_seconds", what));
    steps.peak_memory_bytes = std::max(
        steps.peak_memory_bytes, static_cast<int64_t>(number(line, "peak_memory_bytes", what)));
    steps.simulated = steps.simulated || line.contains("simulated");
  }
  VIADUCT_CHECK(IoError, !seconds.empty(), "{}: no step was logged", metrics.string());
  if (seconds.size() > 1) {
    seconds.erase(seconds.begin());
    communication.erase(communication.begin());
  }
  steps.steps = static_cast<int64_t>(seconds.size());
  steps.step_seconds = median(seconds);
  steps.communication_seconds = median(communication);
  return steps;
}

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
  fmt::print("measured, the median of {} step{}{}:\n", measured.steps,
             measured.steps == 1 ? "" : "s",
             measured.simulated ? " of a simulated run, whose seconds are no machine's" : "");
  fmt::print("  {:<26} {:>12} {:>12} {:>11}\n", "", "planned", "measured", "difference");
  for (const PlannedFigure& figure : planned_figures(planned, measured)) {
    fmt::print("  {:<26} {:>12} {:>12} {:>11}\n", figure.name, text_of(figure, figure.planned),
               text_of(figure, figure.measured),
               figure.share() ? fmt::format("{:+.1f} %", 100 * *figure.share()) : "–");
  }
}

}  // namespace viaduct::cli
