#include "inference/interrupts.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "base/error.h"

namespace viaduct {
namespace {

bool readable(int descriptor) {
  struct pollfd asked {
    descriptor, POLLIN, 0
  };
  return poll(&asked, 1, 0) == 1;
}

TEST(Interrupts, AreSeenUntilTheyAreCleared) {
  Interrupts interrupts;
  EXPECT_FALSE(interrupts.any());
  EXPECT_FALSE(readable(interrupts.descriptor()));
  for (int i = 0; i < 3; ++i) raise(SIGINT);
  EXPECT_TRUE(interrupts.any());
  EXPECT_TRUE(readable(interrupts.descriptor()));
  interrupts.clear();
  EXPECT_FALSE(interrupts.any());
  EXPECT_FALSE(readable(interrupts.descriptor()));
  raise(SIGINT);
  EXPECT_TRUE(interrupts.any());
}

TEST(Interrupts, ThereIsOnlyOneAndItPutsBackWhatWasThere) {
  struct sigaction before {
  }, after{};
  sigaction(SIGINT, nullptr, &before);
  {
    const Interrupts interrupts;
    EXPECT_THROW(Interrupts(), Error);
  }
  sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
  EXPECT_FALSE(Interrupts().any());
}

TEST(Interrupts, ThoseThatWereIgnoredStaySo) {
  void (*const before)(int) = signal(SIGINT, SIG_IGN);
  {
    const Interrupts interrupts;
    raise(SIGINT);
    EXPECT_FALSE(interrupts.any());
  }
  signal(SIGINT, before);
}

}  // namespace
}  // namespace viaduct
