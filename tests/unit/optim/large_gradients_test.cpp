#include "optim/large_gradients.h"

#include <gmock/gmock.h>

#include <cmath>

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;

LargeGradients with_history() {
  LargeGradients check;
  for (int64_t i = 0; i < LargeGradients::kSamples; ++i)
    EXPECT_EQ(check.look({1 + 0.01 * static_cast<double>(i % 50), i == 7 ? 3.0 : 1e-3, 0}), "");
  return check;
}

TEST(LargeGradients, TenTimesTheLargestOfTheFirstHundredIsUnusual) {
  LargeGradients check = with_history();
  EXPECT_EQ(check.look({14.8, 29.9, 0}), "");
  EXPECT_THAT(check.look({14.8, 30.0, 0}),
              AllOf(HasSubstr("bucket 1 has norm 30"), HasSubstr("was 3")));
  EXPECT_THAT(check.look({14.9, 0, 0}), HasSubstr("bucket 0"));
}

TEST(LargeGradients, NothingIsUnusualAmongTheFirst) {
  LargeGradients check;
  for (int64_t i = 0; i < LargeGradients::kSamples; ++i)
    EXPECT_EQ(check.look({std::pow(11, static_cast<double>(i % 9))}), "");
}

TEST(LargeGradients, ValuesThatAreNotFiniteAndEmptyBucketsAreNotItsAffair) {
  LargeGradients check = with_history();
  EXPECT_EQ(check.look({NAN, INFINITY, 5}), "");
}

}  // namespace
}  // namespace viaduct
