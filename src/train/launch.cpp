#include "train/launch.h"

#include <string>

#include "base/error.h"

namespace viaduct {
namespace {

// World sizes as Open MPI, other MPIs, and steps of Slurm give them to their processes.
constexpr const char* kWorldSizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};

}  // namespace

void check_launch(const EnvironmentLookup& environment) {
  bool by_mpi = false;
  for (const char* name : kWorldSizes) {
    const char* size = environment(name);
    if (size == nullptr) continue;
    by_mpi = true;
    VIADUCT_CHECK(ConfigError, std::string(size) == "1",
                  "{}={}: more than one rank: known, not built yet", name, size);
  }
  const char* world = environment("WORLD_SIZE");
  if (by_mpi || world == nullptr || environment("RANK") == nullptr) return;
  fail<ConfigError>(
      "RANK and WORLD_SIZE are set, as torchrun does: on cpu MPI starts the ranks: `mpirun -n {} "
      "viaduct train CONFIG.yaml` (more than one rank: known, not built yet)",
      world);
}

void run_ranks(const DistConfig& config, RankMain rank_main) {
  if (config.ranks == 1) return rank_main(make_self_communicator("world"));
  run_thread_ranks(config.ranks, {60 * config.distributed_timeout_minutes}, rank_main);
}

}  // namespace viaduct
