#include "timeline/link_sharing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(LinkSharing, ATransferAloneIsNotDelayed) {
  EXPECT_THAT(sharing_delays({}), IsEmpty());
  EXPECT_THAT(sharing_delays({{3, 5}}), ElementsAre(0));
  EXPECT_THAT(sharing_delays({{0, 2}, {2, 3}, {7, 1}}), ElementsAre(0, 0, 0));
}

TEST(LinkSharing, TransfersOfTheSameTimeGetEqualParts) {
  EXPECT_THAT(sharing_delays({{0, 4}, {0, 4}}), ElementsAre(4, 4));
  // The short one ends at 3, when the others have 1 each; the second at 5, the last at 6.
  EXPECT_THAT(sharing_delays({{0, 2}, {0, 1}, {0, 3}}), ElementsAre(3, 2, 3));
}

// [0, 2) the first alone; [2, 6) both at half the rate; then the second alone, until 8.
TEST(LinkSharing, ATransferThatComesLaterTakesItsPartFromThenOn) {
  EXPECT_THAT(sharing_delays({{0, 4}, {2, 4}}), ElementsAre(2, 2));
  EXPECT_THAT(sharing_delays({{2, 4}, {0, 4}}), ElementsAre(2, 2));
}

TEST(LinkSharing, TheLinkIsNeverIdleAndNeverGivesMoreThanItsRate) {
  std::vector<LinkTransfer> transfers;
  double work = 0;
  for (int i = 0; i < 50; ++i) {
    transfers.push_back({0.1 * (i * 17 % 50), 1.0 + i * 7 % 5});
    work += transfers.back().seconds;
  }
  const std::vector<double> delays = sharing_delays(transfers);
  double end = 0;
  for (size_t i = 0; i < transfers.size(); ++i) {
    EXPECT_GE(delays[i], 0);
    end = std::max(end, transfers[i].begin + transfers[i].seconds + delays[i]);
  }
  EXPECT_NEAR(end, work, 1e-9);
}

}  // namespace
}  // namespace viaduct
