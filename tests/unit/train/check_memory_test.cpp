// A run that does not fit is refused on all ranks before anything is allocated, with settings that
// would fit.

#include "train/check_memory.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "comm/world.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

TEST(CheckMemory, RanksOfAMachineShareIt) {
  const RunSetup setup =
      setup_of(tiny_run() +
               Overrides{"dist.ranks=2", "train.global_batch_size=8", "train.micro_batch_size=4"});
  const PlannedMemory planned = plan_memory(setup);
  const auto bytes = static_cast<double>(planned.plan.arena_bytes);
  run_thread_ranks(2, {.timeout_seconds = 60}, [&](std::shared_ptr<Communicator> world) {
    check_memory(setup, planned, world->host(), 2, 2 * bytes);
    check_memory(setup, planned, world->host(), 1, bytes);  // each on its own machine
    EXPECT_THAT(
        [&] { check_memory(setup, planned, world->host(), 2, 1.9 * bytes); },
        ThrowsMessage<ConfigError>(AllOf(HasSubstr("on the 2 ranks of this machine"),
                                         HasSubstr("what would fit, the fewest changes first:\n"),
                                         HasSubstr(" a rank"))));
    EXPECT_THAT(
        [&] { check_memory(setup, planned, world->host(), 2, 1); },
        ThrowsMessage<ConfigError>(HasSubstr("none of the settings that were tried makes it fit")));
    EXPECT_THAT([&] { check_memory(setup, planned, world->host(), 2, 1.9 * bytes, 0); },
                ThrowsMessage<ConfigError>(
                    AllOf(HasSubstr("were found in 0 s, in which not all were tried: fewer rows"),
                          Not(HasSubstr("none of the settings")))));
  });
}

}  // namespace
}  // namespace viaduct
