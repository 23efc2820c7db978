#pragma once
// Which cores and memory of its machine a rank uses (dist.numactl). A memory node is memory with
// the cores near it: machines with several processors have several.
//
// A rank's thread is bound, and with it all threads that it starts; so ranks that are threads of
// one process have nodes of their own. Memory follows the thread that touches it first.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace viaduct {

struct MemoryNode {
  int number = 0;
  std::vector<int> cores;  // ascending
};

/// The nodes that have cores, ascending (`sysfs`: where the system lists them). None if it lists
/// none.
std::vector<MemoryNode> memory_nodes(const std::filesystem::path& sysfs = "/sys");

/// Binds the calling thread, and threads that it starts, to the node: to its cores, and for new
/// memory to it first, to others where it has none left. Returns a line that names cores and node,
/// or says what is not bound and why.
std::string bind_to_node(MemoryNode node);

/// The same for number `local_rank` of the `local_ranks` ranks of this machine: ranks that follow
/// each other share a node. Without several nodes it binds nothing, and says so.
std::string bind_in_turn(int local_rank, int local_ranks,
                         const std::filesystem::path& sysfs = "/sys");

/// For a rank with the GPU `bus_id`: to the GPU's node (`numactl` true), to the cores near it
/// (null) or to nothing (false).
std::string bind_to_gpu(const std::string& bus_id, std::optional<bool> numactl,
                        const std::filesystem::path& sysfs = "/sys");

/// Threads of a rank of the cpu with dist.numactl: the machine's shared among `local_ranks` ranks,
/// but at most the cores of the smallest node.
int threads_in_node(int local_ranks, const std::filesystem::path& sysfs = "/sys");

}  // namespace viaduct
