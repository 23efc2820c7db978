#pragma once
// The page about a run: its curves, its speed, its memory, the plan, and what its log shows.

#include <optional>
#include <string>

#include "report/page/symptoms.h"

namespace viaduct {

struct RunPageInput {
  std::string name;
  RunLog log;
  std::string config;       // the resolved configuration, as YAML; "" if it was not found
  std::string router_load;  // an SVG document that the run drew (report/router_figures.h); "": none
  std::optional<PlannedRun> planned;
};

/// A whole HTML document.
std::string run_page(const RunPageInput& input);

}  // namespace viaduct
