#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/exit_watchdog.h"
#include "base/units.h"
#include "comm/failed_rank.h"
#include "comm/launcher.h"
#include "comm/mpi/mpi_communicator.h"
#include "comm/world.h"

namespace viaduct {
namespace {

// The launcher ends a run when one of its processes has failed; if it does not, this process ends
// the run after this time. The process that failed reports it first, and may wait a minute for the
// others before (Communicator::reconnect in a trainer).
constexpr std::chrono::seconds kLauncherTime{75};

std::string current_message() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

void check_world_size(MpiNetwork& network) {
  const Launch launch = detect_launch([](const char* name) { return std::getenv(name); });
  const int size = network.world().size();
  if (launch.launcher != Launcher::mpi || launch.ranks == size) return;
  network.finish();
  fail<CommError>(
      "{}={}, but MPI sees {}: this launcher does not work with {}; use the mpirun "
      "of that library, or `srun --mpi=pmix`",
      launch.variable, launch.ranks, counted(size, "rank"), mpi_library());
}

}  // namespace

void run_mpi_rank(const WorldOptions& options, RankMain rank_main) {
  MpiNetwork network;
  check_world_size(network);
  const auto engine = std::make_shared<MpiEngine>(network, options);
  try {
    // Communicators share the group; the network owns this one.
    rank_main(make_mpi_communicator(
        engine, std::shared_ptr<const MpiGroup>(std::shared_ptr<void>(), &network.world())));
    engine->end_together();
  } catch (...) {
    const MpiFailure first = engine->settle(current_message());
    if (first.rank == network.world().rank()) {
      engine->stop();
      if (network.world().size() == 1) throw;
      rethrow_of_rank(first.rank, std::current_exception());
    }
    // The rank that failed reports the failure; this one waits to be killed. MPI_Abort may hang as
    // well.
    end_process_after(static_cast<int>(kLauncherTime.count()) + options.exit_grace_seconds, 1,
                      "viaduct: error: neither the launcher nor MPI_Abort ended this rank\n");
    std::this_thread::sleep_for(kLauncherTime);
    network.end_all();
  }
  engine->stop();
  // If another rank has died, this hangs; in OpenMPI 4.1.4 forever.
  end_process_after(options.exit_grace_seconds, 1,
                    "viaduct: error: MPI_Finalize does not return: another rank or the launcher is "
                    "gone; this rank had finished its work\n");
  network.finish();
  let_process_live();
}

}  // namespace viaduct
