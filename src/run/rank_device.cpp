#include "run/rank_device.h"

#include "base/error.h"
#include "comm/stream_priority.h"
#include "ops/cuda/cuda_ops.h"
#include "run/cuda_backend.h"

namespace viaduct {

CpuIsa cpu_isa_of(const DistConfig& config) {
  if (config.cpu_isa.is_auto()) return best_cpu_isa();
  for (const CpuIsa isa : kCpuIsas) {
    if (cpu_isa_name(isa) == config.cpu_isa.value()) return isa;
  }
  fail<ConfigError>("dist.cpu_isa: expected portable, avx2, avx512, avx512_bf16 or amx, found {}",
                    config.cpu_isa.value());
}

RankDevice make_rank_device(const DistConfig& config) {
  const std::string kind = config.device.value_or("cpu");
  if (kind == "cuda") {
    const CudaBackend& backend = cuda_backend();
    return {backend.make_device({config.product_algorithms_path.value_or(""),
                                 stream_priority(config), config.nccl_ub && config.ranks > 1,
                                 config.in_one_process && config.ranks > 1}),
            backend.ops(backend.target())};
  }
  VIADUCT_CHECK(ConfigError, kind == "cpu",
                "dist.device={}: only `viaduct train` runs in virtual time, where nothing is "
                "computed; expected cpu or cuda",
                kind);
  return {make_cpu_device(config.threads_per_rank.value_or(default_pool_threads(config.ranks))),
          cpu_ops(cpu_isa_of(config))};
}

RankDevice make_dry_run_device(const RunConfig& config) {
  if (config.cuda_target) return {make_sim_device(true), cuda_ops(*config.cuda_target)};
  return {make_sim_device(), cpu_ops(cpu_isa_of(config.dist), true)};
}

}  // namespace viaduct
