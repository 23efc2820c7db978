#include "plan/layout_setup.h"

#include <algorithm>

#include "engine/dry_run.h"
#include "plan/planning_defaults.h"

namespace viaduct {

RunSetup setup_of_layout(const PlanRequest& request, const Layout& layout,
                         const std::vector<std::string>& further) {
  std::vector<std::string> overrides = request.overrides;
  const std::vector<std::string> fields = overrides_of(layout);
  overrides.insert(overrides.end(), fields.begin(), fields.end());
  overrides.insert(overrides.end(), further.begin(), further.end());
  return prepare_run(load_run_config(request.file, overrides, planning_defaults(request.cluster)));
}

MemoryNeed memory_need(const RunSetup& setup, const Cluster& cluster, const Deadline& deadline) {
  MemoryNeed need;
  double offloaded = 0;
  for (const DryRun& stage : dry_run_stages(setup, deadline)) {
    need.bytes = std::max(need.bytes, static_cast<double>(stage.peak.bytes));
    offloaded = std::max(offloaded, static_cast<double>(stage.offload.most_bytes));
  }
  need.host_bytes = host_bytes(cluster, setup.config, offloaded);
  return need;
}

}  // namespace viaduct
