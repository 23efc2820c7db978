#include "run/launch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/log.h"
#include "comm/staged_communicator.h"
#include "run/cuda_backend.h"
#include "run/gpu_cores.h"
#include "run/rank_device.h"

namespace viaduct {
namespace {

/// Ranks whose communicators exchange host memory.
void run_host_ranks(const DistConfig& config, bool by_mpi, RankMain rank_main) {
  if (config.ranks == 1) return rank_main(make_self_communicator("world"));
  WorldOptions options;
  options.timeout_seconds = 60 * config.distributed_timeout_minutes;
  options.threads_per_rank = config.threads_per_rank.value_or(default_pool_threads(config.ranks));
  if (by_mpi) return run_mpi_rank(options, rank_main);
  run_thread_ranks(config.ranks, options, rank_main);
}

/// Whether two ranks compute on one GPU, which NCCL does not accept.
bool share_gpus(Communicator& world, const CudaBackend& backend) {
  char machine[256] = {};
  ::gethostname(machine, sizeof machine - 1);
  std::vector<std::string> gpus =
      world.host().texts_on_all(std::string(machine) + " " + backend.gpu_bus_id());
  std::sort(gpus.begin(), gpus.end());
  return std::adjacent_find(gpus.begin(), gpus.end()) != gpus.end();
}

}  // namespace

Launch launch_on_cpu(const EnvironmentLookup& environment) {
  Launch launch = detect_launch(environment);
  VIADUCT_CHECK(ConfigError, launch.launcher != Launcher::torchrun,
                "{}={} is set, as torchrun does, but its variables are for the cuda device; on cpu "
                "MPI starts the ranks: `mpirun -n {} viaduct train CONFIG.yaml`",
                launch.variable, launch.ranks, launch.ranks);
  return launch;
}

Launch launch_on_cpu() {
  return launch_on_cpu([](const char* name) { return std::getenv(name); });
}

DistConfig launch_defaults(const Launch& launch) {
  DistConfig defaults;
  if (launch.launcher != Launcher::mpi) return defaults;
  defaults.ranks = launch.ranks;
  defaults.threads_per_rank.resolve(default_pool_threads(launch.local_ranks));
  return defaults;
}

void check_started(const DistConfig& config, const Launch& launch) {
  VIADUCT_CHECK(ConfigError,
                launch.launcher != Launcher::mpi || launch.ranks == 1 || !mpi_library().empty(),
                "{}={} is set: {} processes were started, and this program was built without MPI "
                "(VIADUCT_MPI=OFF); ranks of one process need no launcher: dist.ranks={}",
                launch.variable, launch.ranks, launch.ranks, launch.ranks);
  VIADUCT_CHECK(ConfigError, launch.launcher != Launcher::mpi || config.ranks == launch.ranks,
                "dist.ranks: {}, but the launcher started {} ({}); leave it out or make it equal",
                config.ranks, launch.ranks, launch.variable);
}

void run_ranks(const DistConfig& config, const Launch& launch, RankMain rank_main) {
  const bool by_mpi = launch.launcher == Launcher::mpi;
  check_started(config, launch);
  // A dry run may describe another machine.
  VIADUCT_CHECK(ConfigError, cpu_supports(cpu_isa_of(config)),
                "dist.cpu_isa: this machine cannot run {}; its best is {}",
                cpu_isa_name(cpu_isa_of(config)), cpu_isa_name(best_cpu_isa()));
  if (config.device.value_or("cpu") != "cuda") return run_host_ranks(config, by_mpi, rank_main);
  // Ranks of a machine are assigned to its GPUs round-robin, and share them if there are fewer.
  const CudaBackend& backend = cuda_backend();
  const int gpus = backend.count_gpus();
  run_host_ranks(config, by_mpi, [&](std::shared_ptr<Communicator> world) {
    const int local = by_mpi ? world->rank() % launch.local_ranks : world->rank();
    backend.use_gpu(local % gpus);
    log_info("rank {}: {}", world->rank(), bind_near(backend.gpu_bus_id()));
    if (world->size() == 1) return rank_main(world);
    const double timeout = 60 * config.distributed_timeout_minutes;
    rank_main(share_gpus(*world, backend) ? make_staged_communicator(world)
                                          : backend.connect(world, timeout));
  });
}

}  // namespace viaduct
