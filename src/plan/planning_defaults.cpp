#include "plan/planning_defaults.h"

namespace viaduct {

RunConfig planning_defaults(const Cluster& cluster) {
  RunConfig defaults;
  defaults.cuda_target = cluster.gpu.architecture;
  if (!cluster.gpu.is_cpu && cluster.domain > 1) defaults.dist.nvlink_domain_size = cluster.domain;
  return defaults;
}

}  // namespace viaduct
