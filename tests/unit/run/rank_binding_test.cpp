// dist.numactl on a machine that a folder describes: node 0 has the cores of this process, node 1
// none that exist.

#include "run/rank_binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/file.h"
#include "base/thread_pool.h"
#include "run/gpu_cores.h"
#include "support/temporary_folder.h"
#include "support/thread_cores.h"

namespace viaduct {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr const char* kBusId = "0000:1B:00.0";

/// A machine in the system's layout.
class Machine {
 public:
  void node(const std::string& name, const std::string& cores) { write("node/" + name, cores); }
  void gpu(const std::string& node, const std::string& cores) {
    const auto device = folder_.path() / "bus/pci/devices/0000:1b:00.0";
    std::filesystem::create_directories(device);
    write_file_atomically(device / "numa_node", node + "\n");
    write_file_atomically(device / "local_cpulist", cores + "\n");
  }
  std::filesystem::path path() const { return folder_.path(); }

 private:
  void write(const std::string& name, const std::string& cores) {
    const auto folder = folder_.path() / "devices/system" / name;
    std::filesystem::create_directories(folder);
    write_file_atomically(folder / "cpulist", cores + "\n");
  }
  TemporaryFolder folder_;
};

/// Two nodes: the cores of this process, and cores that no machine of the tests has.
class TwoNodes : public Machine {
 public:
  TwoNodes() {
    node("node0", core_list(cores_of_thread()));
    node("node1", "1022-1023");
    node("node2", "");  // memory alone
  }
};

struct Policy {
  int mode = 0;
  unsigned long nodes = 0;
};

Policy policy_of_thread() {
  Policy policy;
  unsigned long mask[16] = {};
  EXPECT_EQ(::syscall(SYS_get_mempolicy, &policy.mode, mask, 8 * sizeof mask, nullptr, 0UL), 0);
  policy.nodes = mask[0];
  return policy;
}

/// Containers may forbid it: then the line says so.
bool may_set_policy() {
  bool may = false;
  std::thread([&] {
    unsigned long node = 1;
    may = ::syscall(SYS_set_mempolicy, MPOL_PREFERRED, &node, 64UL) == 0;
  }).join();
  return may;
}

TEST(RankBinding, NodesHaveTheCoresThatTheSystemLists) {
  Machine sysfs;
  sysfs.node("node10", "4-5");
  sysfs.node("node2", "0-1,3\n");
  sysfs.node("node3", "");
  sysfs.node("nodes", "7");
  sysfs.node("power", "8");
  const std::vector<MemoryNode> nodes = memory_nodes(sysfs.path());
  ASSERT_THAT(nodes, SizeIs(2));
  EXPECT_EQ(nodes[0].number, 2);
  EXPECT_THAT(nodes[0].cores, ElementsAre(0, 1, 3));
  EXPECT_EQ(nodes[1].number, 10);
  EXPECT_THAT(memory_nodes("/no/such/folder"), IsEmpty());
  for (const MemoryNode& node : memory_nodes()) EXPECT_THAT(node.cores, Not(IsEmpty()));
}

TEST(RankBinding, HoldsAThreadAndThoseThatItStartsWithTheirMemory) {
  Machine sysfs;
  const int core = cores_of_thread().back();
  sysfs.node("node0", std::to_string(core));
  sysfs.node("node1", "1022-1023");
  std::string line;
  std::vector<int> cores;
  Policy policy;
  std::thread([&] {
    line = bind_in_turn(0, 2, sysfs.path());
    std::thread([&] { cores = cores_of_thread(), policy = policy_of_thread(); }).join();
  }).join();
  EXPECT_THAT(cores, ElementsAre(core));
  const std::string number = std::to_string(core);
  if (!may_set_policy()) {
    EXPECT_EQ(line, "bound to cores " + number +
                        " of memory node 0, its memory is not: Operation not permitted");
    return;
  }
  EXPECT_EQ(line, "bound to memory node 0, cores " + number);
  EXPECT_EQ(policy.mode, MPOL_PREFERRED);
  EXPECT_EQ(policy.nodes, 1u);
  EXPECT_EQ(policy_of_thread().mode, MPOL_DEFAULT) << "of the thread that binds another";
}

/// What a thread says that is bound.
template <class Bind>
std::string said(Bind bind) {
  std::string line;
  std::thread([&] { line = bind(); }).join();
  return line;
}

TEST(RankBinding, RanksThatFollowEachOtherShareANode) {
  const TwoNodes sysfs;
  const auto line = [&](int rank, int ranks) {
    return said([&] { return bind_in_turn(rank, ranks, sysfs.path()); });
  };
  EXPECT_THAT(line(0, 1), HasSubstr("memory node 0"));
  for (const int rank : {0, 1}) EXPECT_THAT(line(rank, 4), HasSubstr("memory node 0"));
  for (const int rank : {2, 3})
    EXPECT_THAT(line(rank, 4), HasSubstr("not bound to the cores of memory node 1: this process "
                                         "may not use any of them"));
}

TEST(RankBinding, OneNodeIsNothingToBind) {
  Machine sysfs;
  sysfs.node("node0", std::to_string(cores_of_thread().back()));
  const auto before = cores_of_thread();
  EXPECT_THAT(bind_in_turn(0, 1, sysfs.path()), HasSubstr("nothing to bind"));
  EXPECT_EQ(cores_of_thread(), before);
  EXPECT_EQ(policy_of_thread().mode, MPOL_DEFAULT);
}

TEST(RankBinding, OfAGpuIsItsNodeItsCoresOrNothing) {
  TwoNodes sysfs;
  const std::string one = std::to_string(cores_of_thread().back());
  sysfs.gpu("0", one);
  const auto line = [&](std::optional<bool> numactl) {
    return said([&] { return bind_to_gpu(kBusId, numactl, sysfs.path()); });
  };
  const std::string gpu = std::string("GPU ") + kBusId + ": ";
  EXPECT_EQ(line({}), gpu + "bound to cores " + one);
  EXPECT_EQ(line(false), gpu + "not bound (dist.numactl = false)");
  EXPECT_THAT(line(true), HasSubstr("memory node 0"));
  EXPECT_THAT(line(true), HasSubstr(core_list(cores_of_thread())));
  sysfs.gpu("-1", one);
  EXPECT_EQ(line(true), gpu + "bound to cores " + one +
                            "; the system does not say which memory node is near it");
  EXPECT_THAT(said([&] { return bind_to_gpu("0000:99:00.0", true, sysfs.path()); }),
              HasSubstr("not bound to a memory node: "));
}

TEST(RankBinding, ThreadsFitTheSmallestNode) {
  Machine sysfs;
  sysfs.node("node0", "0-7");
  EXPECT_EQ(threads_in_node(1, sysfs.path()), std::min(8, default_pool_threads(1)));
  sysfs.node("node1", "8");
  EXPECT_EQ(threads_in_node(1, sysfs.path()), 1);
  EXPECT_EQ(threads_in_node(1, "/no/such/folder"), default_pool_threads(1));
}

}  // namespace
}  // namespace viaduct
