#include "comm/launcher.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/error.h"

namespace viaduct {
namespace {

// Names of the variables with the size of the world, its size on this machine, and the process's
// rank, as set by Open MPI, by MPICH and its derivatives, and by steps of Slurm.
struct Names {
  const char *ranks, *local_ranks, *rank;
};
constexpr std::array<Names, 3> kMpi{
    {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_RANK"},
     {"PMI_SIZE", "MPI_LOCALNRANKS", "PMI_RANK"},
     {"SLURM_STEP_NUM_TASKS", nullptr, "SLURM_PROCID"}}};

// The setting of mpirun that says how long ranks have to end, as ranks of Open MPI 4 and 5 see it.
constexpr std::array<const char*, 2> kNotice{"OMPI_MCA_odls_base_sigkill_timeout",
                                             "PRTE_MCA_odls_base_sigkill_timeout"};

/// The first number in `text`; 0 if it does not begin with one.
int number(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

int ranks_of(const char* name, const char* value) {
  const int ranks = number(value);
  VIADUCT_CHECK(ConfigError, ranks >= 1, "{}={}: expected a number of ranks", name, value);
  return ranks;
}

/// Slurm's tasks per node are written "4(x2),3": two nodes of 4, then one of 3.
int slurm_local_ranks(const EnvironmentLookup& environment) {
  const char* all = environment("SLURM_STEP_TASKS_PER_NODE");
  const char* node = environment("SLURM_NODEID");
  if (all == nullptr) return 1;
  int left = node != nullptr ? number(node) : 0;
  for (std::string_view rest = all; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const size_t times = item.find("(x");
    left -= times == std::string_view::npos ? 1 : number(item.substr(times + 2));
    if (left < 0) return std::max(1, number(item));
  }
  return 1;
}

/// A whole number from `least` to `most`.
int number_in(const char* name, const char* value, int least, int most) {
  const std::string_view text = value;
  int found = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), found);
  VIADUCT_CHECK(
      ConfigError,
      error == std::errc() && end == text.data() + text.size() && found >= least && found <= most,
      "{}={}: expected a number from {} to {}", name, value, least, most);
  return found;
}

Launch torchrun_launch(const EnvironmentLookup& environment, const char* world, const char* rank) {
  Launch launch{.launcher = Launcher::torchrun,
                .ranks = ranks_of("WORLD_SIZE", world),
                .variable = "WORLD_SIZE"};
  launch.rank = number_in("RANK", rank, 0, launch.ranks - 1);
  if (const char* local = environment("LOCAL_WORLD_SIZE"); local != nullptr)
    launch.local_ranks = ranks_of("LOCAL_WORLD_SIZE", local);
  launch.local_rank = launch.rank;
  if (const char* local = environment("LOCAL_RANK"); local != nullptr)
    launch.local_rank = number_in("LOCAL_RANK", local, 0, launch.ranks - 1);
  if (const char* host = environment("MASTER_ADDR"); host != nullptr) launch.meeting_host = host;
  if (const char* port = environment("MASTER_PORT"); port != nullptr) {
    const char* agent = environment("TORCHELASTIC_USE_AGENT_STORE");
    const bool taken = agent != nullptr && std::string_view(agent) == "True";
    launch.meeting_port = number_in("MASTER_PORT", port, 1, 65534) + (taken ? 1 : 0);
  }
  return launch;
}

}  // namespace

Launch detect_launch(const EnvironmentLookup& environment) {
  for (const Names& names : kMpi) {
    const char* ranks = environment(names.ranks);
    if (ranks == nullptr) continue;
    Launch launch{
        .launcher = Launcher::mpi, .ranks = ranks_of(names.ranks, ranks), .variable = names.ranks};
    if (const char* rank = environment(names.rank); rank != nullptr) launch.rank = number(rank);
    if (names.local_ranks == nullptr)
      launch.local_ranks = slurm_local_ranks(environment);
    else if (const char* local = environment(names.local_ranks); local != nullptr)
      launch.local_ranks = ranks_of(names.local_ranks, local);
    launch.short_notice =
        &names == kMpi.data() && std::ranges::all_of(kNotice, [&](const char* name) {
          return environment(name) == nullptr;
        });
    return launch;
  }
  const char* world = environment("WORLD_SIZE");
  const char* rank = environment("RANK");
  if (world == nullptr || rank == nullptr) return {};
  return torchrun_launch(environment, world, rank);
}

int local_rank(const Launch& launch, int rank) {
  if (launch.launcher == Launcher::torchrun) return launch.local_rank;
  return launch.launcher == Launcher::mpi ? rank % launch.local_ranks : rank;
}

}  // namespace viaduct
