// A process that has finished its work but does not exit.

#include "base/exit_watchdog.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace viaduct {
namespace {

TEST(ExitWatchdogDeathTest, EndsAProcessThatHangs) {
  const auto hang = [] {
    end_process_after(1, 7, "it hangs\n");
    for (;;) ::pause();
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(7), "it hangs");
}

TEST(ExitWatchdogDeathTest, IsTakenBack) {
  const auto live = [] {
    end_process_after(1, 7, "it hangs\n");
    let_process_live();
    _exit(::alarm(0) == 0 ? 3 : 4);
  };
  EXPECT_EXIT(live(), testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace viaduct
