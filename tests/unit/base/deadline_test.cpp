// Deadlines of long work.

#include "base/deadline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace viaduct {
namespace {

double five() {
  return 5;
}

TEST(Deadline, PassesWhenItsClockIsBehindIt) {
  EXPECT_FALSE(Deadline::at(6, five).passed());
  EXPECT_FALSE(Deadline::at(5, five).passed());
  EXPECT_TRUE(Deadline::at(4, five).passed());
  EXPECT_TRUE(Deadline::at(4, five).is_set());
}

TEST(Deadline, WithoutATimeItNeverPasses) {
  const Deadline none;
  EXPECT_FALSE(none.is_set());
  EXPECT_FALSE(none.passed());
  EXPECT_NO_THROW(none.check("work"));
}

TEST(Deadline, TheErrorNamesTheWork) {
  EXPECT_NO_THROW(Deadline::at(6, five).check("dry run"));
  EXPECT_THAT([] { Deadline::at(4, five).check("dry run"); },
              testing::ThrowsMessage<DeadlineError>(testing::HasSubstr("dry run")));
}

}  // namespace
}  // namespace viaduct
