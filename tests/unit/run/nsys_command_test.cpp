// The command line that has a profiler watch a run.

#include "run/nsys_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "run/run_config.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(NsysCommand, HasTheTracesAndTheProgramAsItWasStarted) {
  ProfilingConfig config;
  const std::vector<std::string> program{"./viaduct", "train", "my run.yaml",
                                         "dataset.blend=[it's]"};
  EXPECT_EQ(nsys_command(config, program),
            "nsys profile --trace=nvtx,cuda --capture-range=cudaProfilerApi "
            "--capture-range-end=stop ./viaduct train 'my run.yaml' 'dataset.blend=[it'\\''s]'");
  config.nsys_trace = {"cuda", "cublas", "mpi"};
  EXPECT_THAT(nsys_command(config, {"viaduct"}), HasSubstr("--trace=cuda,cublas,mpi "));
  config.nsys_trace = {};
  EXPECT_THAT(nsys_command(config, {"viaduct"}), HasSubstr("--trace=none "));
}

TEST(NsysCommand, KnowsTheProgramOfThisProcess) {
  const std::vector<std::string> program = program_of_process();
  ASSERT_FALSE(program.empty());
  EXPECT_THAT(program.front(), HasSubstr("test_"));
}

TEST(NsysCommand, AProfilerShowsInTheEnvironment) {
  const auto with = [](std::string_view set) {
    return profiler_watches([set](const char* name) { return set == name ? "1" : nullptr; });
  };
  EXPECT_FALSE(with("PATH"));
  for (const char* name :
       {"NSYS_PROFILING_SESSION_ID", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"})
    EXPECT_TRUE(with(name)) << name;
}

TEST(NsysCommand, UnknownTracesAreRefusedWithTheNearest) {
  EXPECT_EQ(load_run_config({}, {"profiling.nsys_trace=[osrt, cudnn]"}).config.profiling.nsys_trace,
            (std::vector<std::string>{"osrt", "cudnn"}));
  EXPECT_THAT([] { load_run_config({}, {"profiling.nsys_trace=[nvtx, cudda]"}); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("nsys_trace"), HasSubstr("'cudda'; nearest: cuda"))));
}

}  // namespace
}  // namespace viaduct
