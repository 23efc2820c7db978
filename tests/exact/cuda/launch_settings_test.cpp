// Settings of how ranks with GPUs are launched: what carries their tensors, the boost slider, sums
// in one order, and how a profiler is attached.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "exact/cuda/launched_run.h"
#include "support/fake_program.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

std::vector<std::string> notes(const Overrides& more, int ranks = 2) {
  cuda_host::reset_runtime({.devices = 2});
  return setup_of(run_of(ranks) + more).notes;
}

void expect_refused(const Overrides& more, const std::string& why) {
  EXPECT_THAT([&] { notes(more); }, ThrowsMessage<ConfigError>(HasSubstr(why)));
}

TEST(LaunchSettings, GlooCarriesTensorsThroughHosts) {
  const RunSetup nccl = setup_of(run_of(2));
  const Outcomes over_nccl = started_together(nccl, 2);
  EXPECT_GT(nccl_double::calls(), 0);
  const Outcomes shared = started_together(nccl, 1);
  const RunSetup gloo = setup_of(run_of(2) + Overrides{"dist.distributed_backend=gloo"});
  const Outcomes over_hosts = started_together(gloo, 2);
  EXPECT_EQ(nccl_double::calls(), 0);
  ASSERT_EQ(over_hosts.size(), 2u);
  EXPECT_TRUE(over_hosts == shared);
  EXPECT_TRUE(over_hosts == over_nccl) << "the double adds in the order of ranks, as hosts do";
}

TEST(LaunchSettings, TransportsThatAreNotThereAreRefused) {
  const std::string gloo = "dist.distributed_backend=gloo";
  const std::string stages = "model.pipeline_model_parallel_comm_backend=";
  expect_refused({stages + "ucc"}, "ucc is a library that this program does not use");
  expect_refused({stages + "nccl", gloo}, "carries tensors between all ranks; expected null");
  expect_refused({gloo, "ddp.nccl_ub=true"}, "gloo uses no NCCL");
  expect_refused({gloo, "model.cuda_graph_impl=full_iteration"}, "which the graph of a step");
  EXPECT_THAT(notes({stages + "nccl"}), Not(Contains(HasSubstr("comm_backend"))));
  DistConfig config;
  config.ranks = 2;
  config.device = DeviceKind::cuda;
  config.distributed_backend = TensorTransport::gloo;
  Launch torchrun{.launcher = Launcher::torchrun, .ranks = 2};
  torchrun.variable = "WORLD_SIZE";
  EXPECT_THAT(
      [&] { check_started(config, torchrun); },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("gloo exchanges tensors between hosts"),
                                       HasSubstr("expected nccl, or `mpirun -n 2 viaduct train"))));
}

TEST(LaunchSettings, UnknownGroupsAreRefused) {
  expect_refused({"dist.high_priority_stream_groups=[dp_pc]"}, "did you mean dp_cp?");
  EXPECT_THAT(notes({"dist.high_priority_stream_groups=[ep]"}),
              Not(Contains(HasSubstr("priority"))));
  EXPECT_THAT(notes({"dist.high_priority_stream_groups=[ep]"}, 1),
              Contains(HasSubstr("one rank sends nothing")));
}

TEST(LaunchSettings, TheBoostSliderIsMovedOnceBeforeTraining) {
  const FakeProgram smi("nvidia-smi", "echo \"$@\" >>\"$HERE/calls\"\n");
  const RunSetup setup = setup_of(run_of(2) + Overrides{"dist.vboost=1"});
  EXPECT_EQ(started_together(setup, 2).size(), 2u);
  EXPECT_EQ(smi.left("calls"), "boost-slider --vboost 1\nboost-slider -l\n");
  expect_refused({"dist.vboost=-1"}, "expected 0 to 255, found -1");
}

class DeterministicMode : public testing::Test {
 protected:
  DeterministicMode() { clear(); }
  ~DeterministicMode() override { clear(); }
  static void clear() {
    for (const char* name : {"NCCL_NVLS_ENABLE", "NCCL_COLLNET_ENABLE", "NCCL_ALGO"})
      ::unsetenv(name);
  }
};

TEST_F(DeterministicMode, TellsNcclToLeaveNothingToSwitches) {
  const Overrides on{"model.deterministic_mode=true"};
  EXPECT_THAT(notes(on, 1), Contains(AllOf(HasSubstr("model.deterministic_mode has no effect"),
                                           HasSubstr("one rank does not use NCCL"))));
  EXPECT_THAT(notes(on + Overrides{"dist.distributed_backend=gloo"}),
              Contains(HasSubstr("gloo does not use NCCL")));
  EXPECT_EQ(std::getenv("NCCL_ALGO"), nullptr);
  EXPECT_THAT(notes(on), AllOf(Contains(HasSubstr("NCCL_NVLS_ENABLE=0 is set for this run")),
                               Contains(HasSubstr("NCCL_ALGO=^NVLS,NVLSTree is set"))));
  EXPECT_STREQ(std::getenv("NCCL_ALGO"), "^NVLS,NVLSTree");
}

TEST_F(DeterministicMode, RefusesWhatContradicts) {
  const Overrides on{"model.deterministic_mode=true"};
  expect_refused(on + Overrides{"dist.use_sharp=true"}, "switches make sums in an order");
  expect_refused(on + Overrides{"env_vars.NCCL_ALGO=NVLS"}, "NCCL_ALGO=NVLS (of the environment");
  clear();
  EXPECT_THAT(notes(on + Overrides{"env_vars.NCCL_ALGO=Ring"}),
              Contains(HasSubstr("NCCL_ALGO=Ring is set for this run (env_vars)")));
}

TEST(LaunchSettings, ARunThatWaitsForAProfilerSaysHowToAttachOne) {
  const Overrides waits{"profiling.use_nsys_profiler=true", "profiling.profile_step_start=1",
                        "profiling.profile_step_end=2", "profiling.nsys_trace=[cuda, cublas]"};
  EXPECT_THAT(notes(waits), Not(Contains(HasSubstr("have no effect")))) << "the window has one";
  EXPECT_THAT(notes(waits), Contains(AllOf(HasSubstr("no profiler was attached"),
                                           HasSubstr("nsys profile --trace=cuda,cublas "),
                                           HasSubstr("test_exact_cuda"))));
  ::setenv("NSYS_PROFILING_SESSION_ID", "1", 1);
  EXPECT_THAT(notes(waits), AllOf(Not(Contains(HasSubstr("nsys profile"))),
                                  Contains(HasSubstr("profiling.nsys_trace has no effect"))));
  ::unsetenv("NSYS_PROFILING_SESSION_ID");
  EXPECT_THAT(notes({"profiling.nsys_trace=[cuda]"}),
              Contains(HasSubstr("profiling.use_nsys_profiler = false")));
}

TEST(LaunchSettings, ConnectionsThatBlockTrainAlike) {
  const Outcomes expected = started_together(setup_of(run_of(2)), 2);
  EXPECT_GT(cuda_host::runtime_counts().shared_pieces, 0) << "ranks of one process";
  EXPECT_TRUE(nccl_double::configs().empty());
  EXPECT_TRUE(started_together(setup_of(run_of(2) + Overrides{"dist.nccl_blocking=true"}), 2) ==
              expected);
  EXPECT_FALSE(nccl_double::configs().empty());
  started_together(setup_of(run_of(1)), 2);
  EXPECT_EQ(cuda_host::runtime_counts().shared_pieces, 0) << "one rank";
}

TEST(LaunchSettings, FewerMultiprocessorsThanConnectionsAreRefused) {
  const RunSetup setup = setup_of(run_of(2) + Overrides{"dist.nccl_multiprocessors=2"});
  EXPECT_THAT([&] { started_together(setup, 2); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("dist.nccl_multiprocessors: 2 for"),
                                               HasSubstr("connections of NCCL"))));
}

}  // namespace
}  // namespace viaduct
