#include <fmt/ranges.h>

#include "base/error.h"
#include "hardware/cluster.h"
#include "run/validate_parallel.h"

namespace viaduct {

void validate_simulation(const RunConfig& config, Problems& problems) {
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

}  // namespace viaduct
