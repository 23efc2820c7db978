#include "run/rank_binding.h"

#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/thread_pool.h"
#include "run/gpu_cores.h"

namespace viaduct {
namespace {

constexpr int kMostNodes = 1024;

/// The number behind "node", or −1.
int number_of_node(const std::string& name) {
  int number = -1;
  if (!name.starts_with("node")) return -1;
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + 4, last, number);
  return error == std::errc() && end == last && number < kMostNodes ? number : -1;
}

/// Nodes of memory alone have an empty list.
bool has_cores(const std::filesystem::path& list) {
  return system_text(list).find_first_of("0123456789") != std::string::npos;
}

/// New memory of the calling thread, and of threads that it starts, comes from the node first.
/// Returns why not, or "".
std::string prefer_memory(int node) {
  constexpr size_t kBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, kMostNodes / kBits> mask{};
  mask[static_cast<size_t>(node) / kBits] = 1UL << (static_cast<size_t>(node) % kBits);
  // The kernel counts one bit more than it reads.
  const long failed = ::syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask.data(), kMostNodes + 1UL);
  return failed == 0 ? "" : std::strerror(errno);
}

/// The memory node of a device of the bus; −1: the system does not say.
int node_of_device(const std::string& bus_id, const std::filesystem::path& sysfs) {
  const std::string text = system_text(device_folder(bus_id, sysfs) / "numa_node");
  int node = -1;
  std::from_chars(text.data(), text.data() + text.size(), node);
  return node;
}

constexpr const char* kOneNode = "the machine has one memory node: nothing to bind";

}  // namespace

std::vector<MemoryNode> memory_nodes(const std::filesystem::path& sysfs) {
  std::vector<MemoryNode> nodes;
  std::error_code none;
  for (const auto& entry :
       std::filesystem::directory_iterator(sysfs / "devices/system/node", none)) {
    const int number = number_of_node(entry.path().filename().string());
    const auto list = entry.path() / "cpulist";
    if (number >= 0 && has_cores(list)) nodes.push_back({number, read_core_list(list)});
  }
  std::ranges::sort(nodes, {}, &MemoryNode::number);
  return nodes;
}

std::string bind_to_node(MemoryNode node) {
  if (const std::string why = bind_to_cores(node.cores); !why.empty())
    return fmt::format("not bound to the cores of memory node {}: {}", node.number, why);
  const std::string cores = core_list(node.cores), why = prefer_memory(node.number);
  if (why.empty()) return fmt::format("bound to memory node {}, cores {}", node.number, cores);
  return fmt::format("bound to cores {} of memory node {}, its memory is not: {}", cores,
                     node.number, why);
}

std::string bind_in_turn(int local_rank, int local_ranks, const std::filesystem::path& sysfs) {
  try {
    const std::vector<MemoryNode> nodes = memory_nodes(sysfs);
    if (nodes.size() < 2) return kOneNode;
    const int64_t at = int64_t{local_rank} * static_cast<int64_t>(nodes.size()) / local_ranks;
    return bind_to_node(nodes.at(static_cast<size_t>(at)));
  } catch (const IoError& error) {
    return fmt::format("not bound to a memory node: {}", error.what());
  }
}

std::string bind_to_gpu(const std::string& bus_id, std::optional<bool> numactl,
                        const std::filesystem::path& sysfs) {
  if (!numactl) return bind_near(bus_id, sysfs);
  if (!*numactl) return fmt::format("GPU {}: not bound (dist.numactl = false)", bus_id);
  try {
    const std::vector<MemoryNode> nodes = memory_nodes(sysfs);
    if (nodes.size() < 2) return bind_near(bus_id, sysfs) + "; " + kOneNode;
    const int number = node_of_device(bus_id, sysfs);
    const auto found = std::ranges::find(nodes, number, &MemoryNode::number);
    if (found != nodes.end()) return fmt::format("GPU {}: {}", bus_id, bind_to_node(*found));
  } catch (const IoError& error) {
    return fmt::format("GPU {}: not bound to a memory node: {}", bus_id, error.what());
  }
  return bind_near(bus_id, sysfs) + "; the system does not say which memory node is near it";
}

int threads_in_node(int local_ranks, const std::filesystem::path& sysfs) {
  int threads = default_pool_threads(local_ranks);
  for (const MemoryNode& node : memory_nodes(sysfs))
    threads = std::min(threads, static_cast<int>(node.cores.size()));
  return threads;
}

}  // namespace viaduct
