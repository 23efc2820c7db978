#include "train/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>

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

// GNU `timeout` sends SIGTERM to the process and to its group.
TEST(StopSignals, RepeatsWithinSecondsAreOneRequest) {
  StopSignals signals;
  for (int i = 0; i < 3; ++i) raise(SIGTERM);
  raise(SIGINT);
  EXPECT_EQ(signals.received(), SIGTERM);
}

TEST(StopSignals, TheFirstIsAnsweredOnce) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  {
    StopSignals signals({WarningSignal::usr1}, {.descriptor = ends[1], .text = "saving\n"});
    raise(SIGUSR1);  // warnings are not answered
    raise(SIGINT);
    raise(SIGTERM);
  }
  close(ends[1]);
  char text[64];
  const ssize_t bytes = read(ends[0], text, sizeof text);
  close(ends[0]);
  ASSERT_GE(bytes, 0);
  EXPECT_EQ(std::string(text, static_cast<size_t>(bytes)), "saving\n");
}

TEST(StopSignalsDeathTest, ALaterSecondOneEndsTheProcessAtOnce) {
  const auto twice = [](int first, int second) {
    StopSignals signals({}, {.one_request_nanoseconds = 0});
    raise(first);
    raise(second);
  };
  EXPECT_EXIT(twice(SIGINT, SIGINT), testing::ExitedWithCode(130), "");
  EXPECT_EXIT(twice(SIGTERM, SIGTERM), testing::ExitedWithCode(143), "");
  EXPECT_EXIT(twice(SIGINT, SIGTERM), testing::ExitedWithCode(143), "");
}

TEST(StopSignals, WarningsAskToStopAndNeverEndTheProcess) {
  StopSignals signals({WarningSignal::hup, WarningSignal::usr1, WarningSignal::usr2});
  raise(SIGUSR1);
  raise(SIGUSR1);
  raise(SIGHUP);
  raise(SIGUSR2);
  EXPECT_EQ(signals.received(), SIGUSR1);
  raise(SIGTERM);  // the first signal after which another one would end the process
  EXPECT_EQ(signals.received(), SIGUSR1);
}

TEST(StopSignals, AWarningThatIsIgnoredStaysSo) {
  ASSERT_NE(signal(SIGHUP, SIG_IGN), SIG_ERR);
  {
    StopSignals signals({WarningSignal::hup});
    raise(SIGHUP);
    EXPECT_EQ(signals.received(), 0);
  }
  EXPECT_EQ(signal(SIGHUP, SIG_DFL), SIG_IGN);
}

TEST(StopSignalsDeathTest, OnlyWarningsThatAreAskedFor) {
  const auto warned = [] {
    StopSignals signals({WarningSignal::hup});
    raise(SIGUSR1);
  };
  EXPECT_EXIT(warned(), testing::KilledBySignal(SIGUSR1), "");
}

}  // namespace
}  // namespace viaduct
