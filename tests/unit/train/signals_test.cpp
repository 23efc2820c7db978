#include "train/signals.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "base/error.h"

namespace viaduct {
namespace {

TEST(StopSignals, TheFirstOnlySetsAFlag) {
  for (int signal : {SIGINT, SIGTERM}) {
    StopSignals signals;
    EXPECT_EQ(signals.received(), 0);
    raise(signal);
    EXPECT_EQ(signals.received(), signal);
  }
  EXPECT_EQ(StopSignals().received(), 0);  // a new one starts clean
}

TEST(StopSignals, PutsBackWhatWasThere) {
  ASSERT_NE(signal(SIGINT, SIG_IGN), SIG_ERR);
  { StopSignals signals; }
  EXPECT_EQ(signal(SIGINT, SIG_DFL), SIG_IGN);
}

TEST(StopSignals, ThereIsOnlyOne) {
  StopSignals signals;
  EXPECT_THROW(StopSignals(), Error);
  raise(SIGTERM);  // the first one still works
  EXPECT_EQ(signals.received(), SIGTERM);
}

TEST(StopSignalsDeathTest, TheSecondEndsTheProcessAtOnce) {
  const auto twice = [](int first, int second) {
    StopSignals signals;
    raise(first);
    raise(second);
  };
  EXPECT_EXIT(twice(SIGINT, SIGINT), testing::ExitedWithCode(130), "");
  EXPECT_EXIT(twice(SIGTERM, SIGTERM), testing::ExitedWithCode(143), "");
  EXPECT_EXIT(twice(SIGINT, SIGTERM), testing::ExitedWithCode(143), "");
}

}  // namespace
}  // namespace viaduct
