// The device that a command uses where nobody says: a GPU if there is one. The doubles of a GPU
// stand for it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "support/command.h"
#include "support/cuda_double.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

test::CommandResult viaduct_with(const std::string& library, const Overrides& arguments) {
  test::RunProcess process(test::viaduct_binary(), arguments, {"VIADUCT_CUDA_LIBRARY=" + library});
  const int status = process.finish();
  return {status, process.out(), process.err()};
}

/// The device in the stored configuration of a run of two steps.
std::string device_of_run(const std::string& library, const Overrides& overrides,
                          std::string* log = nullptr) {
  const test::TemporaryFolder folder;
  const auto result = viaduct_with(
      library,
      Overrides{"train"} + test::tiny_run() + overrides +
          Overrides{"train.train_iters=2", "checkpoint.save=" + (folder / "run").string()});
  EXPECT_EQ(result.status, 0) << result.err;
  if (log != nullptr) *log = result.err;
  const std::string stored = read_file(folder / "run" / "config.yaml");
  for (const char* device : {"cpu", "cuda"})
    if (stored.find(std::string("device: ") + device + "\n") != std::string::npos) return device;
  return stored;
}

TEST(DefaultDevice, IsAGpuWhereThereIsOne) {
  const std::string gpu = test::cuda_double_library();
  EXPECT_EQ(device_of_run(gpu, {}), "cuda");
  EXPECT_EQ(device_of_run(gpu, {"dist.device=cpu"}), "cpu");
}

TEST(DefaultDevice, IsTheCpuWhereTheLibraryCannotBeUsedAndTheLogSaysWhy) {
  std::string log;
  EXPECT_EQ(device_of_run("/nowhere/libviaduct_cuda.so", {}, &log), "cpu");
  EXPECT_THAT(log, AllOf(HasSubstr("dist.device=auto is cpu here: "),
                         HasSubstr("/nowhere/libviaduct_cuda.so")));
  EXPECT_EQ(device_of_run("/nowhere/libviaduct_cuda.so", {"dist.device=cpu"}, &log), "cpu");
  EXPECT_THAT(log, Not(HasSubstr("dist.device=auto")));
}

TEST(DefaultDevice, OfADryRunIsItsTarget) {
  const auto target = [](const Overrides& more) {
    const auto result =
        viaduct_with(test::cuda_double_library(), Overrides{"train"} + test::tiny_run() +
                                                      Overrides{"--dry-run", "--json"} + more);
    EXPECT_EQ(result.status, 0) << result.err;
    return nlohmann::json::parse(result.out).at("target").get<std::string>();
  };
  EXPECT_EQ(target({}), "cuda:sm_90a") << "of the GPU that the run would use";
  EXPECT_EQ(target({"--target", "cuda:sm_80"}), "cuda:sm_80");
  EXPECT_EQ(target({"--target", "cpu:avx2"}), "cpu:avx2");
}

TEST(Version, NamesTheGpuOrWhyThereIsNone) {
  EXPECT_THAT(
      viaduct_with(test::cuda_double_library(), {"version"}).out,
      AllOf(HasSubstr("\ncuda: built in; usable here: emulated GPU (driver 13.0, runtime"),
            HasSubstr("\nnccl: built in; usable here: 2."), HasSubstr("\nlibcublasLt.so.13: "),
            HasSubstr("\nlibcudnn.so.9: "), HasSubstr("\nlibnccl.so.2: ")));
  EXPECT_THAT(viaduct_with("/nowhere/libviaduct_cuda.so", {"version"}).out,
              AllOf(HasSubstr("\ncuda: built in; not usable here: "),
                    HasSubstr("/nowhere/libviaduct_cuda.so"), HasSubstr("\nnccl: not usable")));
}

}  // namespace
}  // namespace viaduct
