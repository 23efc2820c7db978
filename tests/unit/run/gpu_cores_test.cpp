#include "run/gpu_cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "support/temporary_folder.h"
#include "support/thread_cores.h"

namespace viaduct {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kGpu = "0000:1B:00.0";

/// A folder with the core list of one device, in the system's layout.
class Sysfs {
 public:
  explicit Sysfs(const std::string& list) {
    const auto device = folder_.path() / "bus/pci/devices/0000:1b:00.0";
    std::filesystem::create_directories(device);
    write_file_atomically(device / "local_cpulist", list);
  }
  std::filesystem::path path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

TEST(GpuCores, AreThoseOfTheSystemsList) {
  EXPECT_THAT(cores_near(kGpu, Sysfs("0-2,8,10-11\n").path()), ElementsAre(0, 1, 2, 8, 10, 11));
  EXPECT_EQ(core_list({0, 1, 2, 8, 10, 11}), "0-2,8,10-11");
  for (const char* wrong : {"", "banana", "3-1", "0-", "1;2", "0-99999999"}) {
    EXPECT_THAT([&] { cores_near(kGpu, Sysfs(wrong).path()); },
                ThrowsMessage<IoError>(HasSubstr("expected a list of cores as 0-3,8")))
        << wrong;
  }
  EXPECT_THROW(cores_near("0000:99:00.0", Sysfs("0").path()), IoError);
}

TEST(GpuCores, ListsOfTheSystemItselfAreRead) {
  const std::vector<int> online = read_core_list("/sys/devices/system/cpu/online");
  for (const int core : cores_of_thread()) EXPECT_THAT(online, testing::Contains(core));
}

TEST(GpuCores, HoldAThreadAndThoseThatItStarts) {
  const int mine = cores_of_thread().back();
  std::thread([&] {
    const Sysfs sysfs(std::to_string(mine) + "\n");
    EXPECT_EQ(bind_near(kGpu, sysfs.path()),
              "GPU 0000:1B:00.0: bound to cores " + std::to_string(mine));
    std::thread([&] { EXPECT_THAT(cores_of_thread(), ElementsAre(mine)); }).join();
  }).join();
}

TEST(GpuCores, AreLeftAloneWhereTheyCannotBeUsed) {
  const auto before = cores_of_thread();
  EXPECT_THAT(bind_near(kGpu, "/no/such/folder"), HasSubstr("not bound to cores near it"));
  // The last number that a list may have; no test machine has it.
  EXPECT_THAT(bind_near(kGpu, Sysfs("1023").path()), HasSubstr("may not use any of them"));
  EXPECT_EQ(cores_of_thread(), before);
}

}  // namespace
}  // namespace viaduct
