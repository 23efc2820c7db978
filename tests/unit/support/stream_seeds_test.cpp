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

}  // namespace
}  // namespace viaduct::test
