#include "run/launch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "comm/nccl_options.h"
#include "comm/staged_communicator.h"
#include "comm/tcp/tcp_world.h"
#include "run/cuda_backend.h"
#include "run/environment_config.h"
#include "run/gpu_boost.h"
#include "run/rank_binding.h"
#include "run/rank_device.h"
#include "run/run_config.h"

namespace viaduct {
namespace {

/// Ranks whose hosts are connected as the launcher wants it.
void run_host_ranks(const DistConfig& config, const Launch& launch, RankMain rank_main) {
  if (config.ranks == 1) return rank_main(make_self_communicator("world"));
  WorldOptions options;
  options.timeout_seconds = 60 * config.distributed_timeout_minutes;
  options.threads_per_rank = config.threads_per_rank.value_or(default_pool_threads(config.ranks));
  if (launch.launcher == Launcher::mpi) return run_mpi_rank(options, rank_main);
  if (launch.launcher == Launcher::torchrun) {
    return run_tcp_rank({.rank = launch.rank,
                         .ranks = launch.ranks,
                         .meeting = {launch.meeting_host, launch.meeting_port}},
                        options, rank_main);
  }
  run_thread_ranks(config.ranks, options, rank_main);
}

/// Ranks that compute on the cores of their machine.
void run_cpu_ranks(const DistConfig& config, const Launch& launch, RankMain rank_main) {
  if (!config.numactl.value_or(false)) return run_host_ranks(config, launch, rank_main);
  const bool threads = launch.launcher == Launcher::none;
  const int of_machine = threads ? config.ranks : launch.local_ranks;
  run_host_ranks(config, launch, [&](std::shared_ptr<Communicator> world) {
    log_info("rank {}: {}", world->rank(),
             bind_in_turn(local_rank(launch, world->rank()), of_machine));
    rank_main(world);
  });
}

/// Sets the variables of section `env_vars`; the lines of `set_environment`. What is wrong with the
/// configuration is said when all of it is read.
std::vector<std::string> set_given_environment(const ConfigInput& given) {
  ConfigInput input = given;
  std::error_code none;
  if (!std::filesystem::is_regular_file(input.file, none)) input.file.clear();  // read once alone
  RunConfig config;
  Problems said_later;
  read_config(run_schema(config), input, said_later);
  const bool other =
      !config.dist.device.is_auto() && config.dist.device.value() != DeviceKind::cuda;
  return other ? std::vector<std::string>() : set_environment(config.environment);
}

/// Whether two ranks compute on one GPU, which NCCL does not take.
bool share_gpus(Communicator& world, const CudaBackend& backend) {
  char machine[256] = {};
  ::gethostname(machine, sizeof machine - 1);
  std::vector<std::string> gpus =
      world.host().texts_on_all(std::string(machine) + " " + backend.gpu_bus_id());
  std::sort(gpus.begin(), gpus.end());
  return std::adjacent_find(gpus.begin(), gpus.end()) != gpus.end();
}

}  // namespace

Launch launch_of_process() {
  return detect_launch([](const char* name) { return std::getenv(name); });
}

DistConfig launch_defaults(const Launch& launch, const ConfigInput& given) {
  DistConfig defaults;
  defaults.environment_notes = set_given_environment(given);
  if (cuda_status().usable()) defaults.device.resolve(DeviceKind::cuda);
  if (launch.launcher == Launcher::none) return defaults;
  defaults.in_one_process = false;
  defaults.ranks = launch.ranks;
  defaults.threads_per_rank.resolve(default_pool_threads(launch.local_ranks));
  return defaults;
}

std::string cpu_instead(const DistConfig& config) {
  if (!config.device.is_auto()) return "";
  const CudaStatus cuda = cuda_status();
  return cuda.installed && !cuda.usable() ? "dist.device=auto is cpu here: " + cuda.problem : "";
}

void check_started(const DistConfig& config, const Launch& launch) {
  VIADUCT_CHECK(ConfigError,
                launch.launcher != Launcher::mpi || launch.ranks == 1 || !mpi_library().empty(),
                "{}={} is set: {} processes were started, and this program was built without MPI "
                "(VIADUCT_MPI=OFF); ranks of one process need no launcher: dist.ranks={}",
                launch.variable, launch.ranks, launch.ranks, launch.ranks);
  const bool torchrun = launch.launcher == Launcher::torchrun;
  VIADUCT_CHECK(ConfigError, !torchrun || config.on_cuda(),
                "{}={} is set, as torchrun does: processes that it starts exchange tensors of the "
                "cuda device alone; on {} MPI starts the ranks: `mpirun -n {} viaduct train "
                "CONFIG.yaml`",
                launch.variable, launch.ranks, choice_name(config.device_kind()), launch.ranks);
  VIADUCT_CHECK(
      ConfigError,
      !torchrun || launch.ranks == 1 || config.distributed_backend != TensorTransport::gloo,
      "dist.distributed_backend: gloo exchanges tensors between hosts, which processes "
      "that torchrun starts ({}={}) do not; expected nccl, or `mpirun -n {} viaduct train "
      "CONFIG.yaml`",
      launch.variable, launch.ranks, launch.ranks);
  VIADUCT_CHECK(
      ConfigError,
      !torchrun || launch.ranks == 1 || (!launch.meeting_host.empty() && launch.meeting_port > 0),
      "{}={} is set, but {} is not: expected the machine (MASTER_ADDR) and a free port "
      "(MASTER_PORT) of rank 0, where all ranks meet",
      launch.variable, launch.ranks, launch.meeting_host.empty() ? "MASTER_ADDR" : "MASTER_PORT");
  VIADUCT_CHECK(ConfigError, launch.launcher == Launcher::none || config.ranks == launch.ranks,
                "dist.ranks: {}, but the launcher started {} ({}); leave it out or make it equal",
                config.ranks, launch.ranks, launch.variable);
}

void run_ranks(const DistConfig& config, const Launch& launch, RankMain rank_main) {
  check_started(config, launch);
  // A dry run may describe another machine.
  VIADUCT_CHECK(ConfigError, cpu_supports(cpu_isa_of(config)),
                "dist.cpu_isa: this machine cannot run {}; its fastest is {}",
                cpu_isa_name(cpu_isa_of(config)), cpu_isa_name(best_cpu_isa()));
  if (!config.on_cuda()) return run_cpu_ranks(config, launch, rank_main);
  // Ranks of a machine take its GPUs in turn, and share them if there are fewer.
  const CudaBackend& backend = cuda_backend();
  const int gpus = backend.count_gpus();
  boost_gpus(config, launch);
  run_host_ranks(config, launch, [&](std::shared_ptr<Communicator> world) {
    backend.use_gpu(local_rank(launch, world->rank()) % gpus);
    log_info("rank {}: {}", world->rank(), bind_to_gpu(backend.gpu_bus_id(), config.numactl));
    if (world->size() == 1) return rank_main(world);
    if (config.distributed_backend == TensorTransport::gloo)
      return rank_main(make_staged_communicator(world));
    const double timeout = 60 * config.distributed_timeout_minutes;
    const NcclOptions nccl = nccl_options(config);
    const bool shared = share_gpus(*world, backend);
    Problems said_before;
    VIADUCT_CHECK(
        ConfigError, !shared || !has_nccl_settings(config, said_before),
        "{} are settings of NCCL, which ranks that share a GPU do not use; expected a GPU "
        "for each rank, or none of them",
        kNcclSettings);
    VIADUCT_CHECK(
        ConfigError, !shared || launch.launcher != Launcher::torchrun,
        "dist.device=cuda: ranks share a GPU, and processes that torchrun starts exchange "
        "tensors between GPUs alone; expected a GPU for each rank (LOCAL_RANK), or "
        "`mpirun -n {} viaduct train CONFIG.yaml`",
        launch.ranks);
    rank_main(shared ? make_staged_communicator(world)
                     : backend.connect(world, timeout, nccl, nccl_rank_options(config)));
  });
}

}  // namespace viaduct
