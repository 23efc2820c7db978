// What a run in virtual time runs on. What it leaves out is said by each field (of_values).

#include <fmt/ranges.h>

#include "base/error.h"
#include "hardware/cluster.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

void refuse_simulation(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  const DistConfig& dist = config.dist;
  if (!dist.cluster) {
    if (dist.simulated())
      problems.add("dist.device: sim needs dist.cluster; expected one of {}, or a YAML file",
                   fmt::join(cluster_names(), ", "));
    return;
  }
  try {
    const Cluster cluster = load_cluster(*dist.cluster);
    if (!cluster.gpu.has_kernels())
      problems.add(
          "dist.cluster: {}: there are no kernels for GPU {}; GPUs with an architecture in "
          "hardware/gpus.yaml have some",
          *dist.cluster, cluster.gpu.name);
  } catch (const Error& error) {
    problems.add("dist.cluster: {}", error.what());
  }
}

}  // namespace

Topic simulation_topic() {
  std::vector<NoEffectRule> idle{
      {{"dist.cluster"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.dist.simulated(),
                          stated("dist.device", c.dist.device_kind()) + ", not sim");
       }},
  };
  return {refuse_simulation, std::move(idle)};
}

}  // namespace viaduct
