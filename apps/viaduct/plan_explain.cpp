#include "plan_explain.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "plan/decision_path.h"

namespace viaduct::cli {

int explain_plan(const PlanRequest& request, bool json) {
  const DecisionPath path = decision_path(request);
  if (json) {
    nlohmann::ordered_json steps = nlohmann::ordered_json::array();
    for (const PathStep& step : path.steps)
      steps.push_back({{"step", step.name}, {"taken", step.taken}, {"lines", step.lines}});
    const nlohmann::ordered_json document{{"cluster", request.cluster.name},
                                          {"steps", std::move(steps)},
                                          {"overrides", overrides_of(path.layout)},
                                          {"fits", path.fits}};
    fmt::print("{}\n", document.dump(2));
    return 0;
  }
  for (const PathStep& step : path.steps) {
    fmt::print("{}{}\n", step.name, step.taken ? "" : " (no change)");
    for (const std::string& line : step.lines) fmt::print("    {}\n", line);
  }
  fmt::print("{}: {}\n  {}\n", path.fits ? "layout" : "nothing fits; the nearest",
             describe(path.layout), fmt::join(overrides_of(path.layout), " "));
  return 0;
}

}  // namespace viaduct::cli
