#include "run/rank_device.h"

#include "base/error.h"
#include "comm/stream_priority.h"
#include "ops/cuda/cuda_ops.h"
#include "run/cuda_backend.h"

namespace viaduct {

CpuIsa cpu_isa_of(const DistConfig& config) {
  return config.cpu_isa.value_or(best_cpu_isa());
}

RankDevice make_rank_device(const DistConfig& config) {
  if (config.on_cuda()) {
    const CudaBackend& backend = cuda_backend();
    return {backend.make_device({config.product_algorithms_path.value_or(""),
                                 stream_priority(config), config.nccl_ub && config.ranks > 1,
                                 config.in_one_process && config.ranks > 1}),
            backend.ops(backend.target())};
  }
  VIADUCT_CHECK(ConfigError, config.device_kind() == DeviceKind::cpu,
                "dist.device={}: only `viaduct train` runs in virtual time, where nothing is "
                "computed; expected cpu or cuda",
                choice_name(config.device_kind()));
  return {make_cpu_device(config.threads_per_rank.value_or(default_pool_threads(config.ranks))),
          cpu_ops(cpu_isa_of(config))};
}

RankDevice make_dry_run_device(const RunConfig& config) {
  if (config.cuda_target) return {make_sim_device(true), cuda_ops(*config.cuda_target)};
  return {make_sim_device(), cpu_ops(cpu_isa_of(config.dist), true)};
}

}  // namespace viaduct
