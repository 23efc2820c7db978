#pragma once
// How NCCL's connections of a run are made: multiprocessors by group of ranks, reductions in the
// switches, registered memory.

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "comm/connection_settings.h"
#include "comm/dist_config.h"
#include "config/problems.h"

namespace viaduct {

/// Of the connections of a group; what is absent is NCCL's choice.
struct NcclGroupOptions {
  /// Blocks of a kernel (each takes a multiprocessor), at least and at most.
  std::optional<int> min_ctas, max_ctas;
  std::optional<int> cga_cluster_size;  // blocks of a cluster; 0: no clusters
  std::string net_name;                 // of the network, as NCCL's plugins name it; empty: any
  bool in_switches = false;             // sums are made by the switches of the network
  bool registers_memory = false;        // the run's memory is registered
  bool symmetric_memory = false;        // as a window at the same place on all ranks
  bool without_ctas = false;            // copy engines move data where NCCL can
  bool operator==(const NcclGroupOptions&) const = default;
};

/// Of all connections of a rank.
struct NcclRankOptions {
  /// The host waits in NCCL's calls, also for ranks that do not come.
  bool blocking = false;
  /// What their kernels may take together at most, in equal shares.
  std::optional<int> multiprocessors = {};
  bool operator==(const NcclRankOptions&) const = default;
};

/// The options of a connection with settings of its own in a group with these options.
NcclGroupOptions with_settings(NcclGroupOptions options, const ConnectionSettings& settings);

/// By name of the group (comm/group_kinds.h).
using NcclOptions = std::map<std::string, NcclGroupOptions, std::less<>>;

/// Of dist.nccl_communicator_config_path, dist.use_sharp and ddp.nccl_ub. Adds what is wrong with
/// them to `problems`.
NcclOptions nccl_options(const DistConfig& config, Problems& problems);
/// ConfigError with all problems.
NcclOptions nccl_options(const DistConfig& config);

/// Of dist.nccl_blocking and dist.nccl_multiprocessors.
NcclRankOptions nccl_rank_options(const DistConfig& config);

/// Whether any setting is one of NCCL alone.
bool has_nccl_settings(const DistConfig& config, Problems& problems);
/// Their names, for messages.
inline constexpr std::string_view kNcclSettings =
    "dist.nccl_communicator_config_path, dist.nccl_blocking, dist.nccl_multiprocessors, "
    "dist.use_sharp and ddp.nccl_ub";

}  // namespace viaduct
