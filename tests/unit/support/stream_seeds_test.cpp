#include "support/stream_seeds.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

namespace viaduct::test {
namespace {

TEST(StreamSeeds, AreTheEnvironmentsOrTheUsual) {
  ASSERT_EQ(std::getenv("VIADUCT_STREAM_SEEDS"), nullptr);
  EXPECT_EQ(stream_seeds(3), 3u);
  ASSERT_EQ(setenv("VIADUCT_STREAM_SEEDS", "20", 1), 0);
  EXPECT_EQ(stream_seeds(3), 20u);
  for (const char* wrong : {"", "0", "-1", "20x", "many", "10001"}) {
    ASSERT_EQ(setenv("VIADUCT_STREAM_SEEDS", wrong, 1), 0);
    EXPECT_THROW(stream_seeds(3), std::invalid_argument) << wrong;
  }
  ASSERT_EQ(unsetenv("VIADUCT_STREAM_SEEDS"), 0);
}

TEST(StreamSeeds, OfACaseFollowItsNameOrTheEnvironment) {
  ASSERT_EQ(std::getenv("VIADUCT_STREAM_SEEDS"), nullptr);
  const auto dp2 = case_seeds("dp2", 2), tp2 = case_seeds("tp2", 2);
  ASSERT_EQ(dp2.size(), 2u);
  EXPECT_GE(dp2[0], 1u);
  EXPECT_EQ(dp2[1], dp2[0] + 1);
  EXPECT_NE(dp2, tp2);
  EXPECT_EQ(dp2, case_seeds("dp2", 2));
  ASSERT_EQ(setenv("VIADUCT_STREAM_SEEDS", "3", 1), 0);
  EXPECT_EQ(case_seeds("dp2", 2), (std::vector<uint64_t>{1, 2, 3}));
  ASSERT_EQ(unsetenv("VIADUCT_STREAM_SEEDS"), 0);
}

}  // namespace
}  // namespace viaduct::test
