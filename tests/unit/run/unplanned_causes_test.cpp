// What a run says of memory that its plan did not have.

#include "run/unplanned_causes.h"

#include <gtest/gtest.h>

#include "run/setup.h"

namespace viaduct {
namespace {

TEST(UnplannedCauses, AreThoseOfTheModelAndItsRows) {
  RunSetup setup;
  EXPECT_EQ(unplanned_causes(setup), "");
  setup.conversations.emplace();
  EXPECT_EQ(unplanned_causes(setup), "documents of other lengths");
  setup.model.moe.experts = 4;
  EXPECT_EQ(unplanned_causes(setup),
            "experts that get more tokens than an even share, documents of other lengths");
}

TEST(UnplannedCauses, OfPicturesAreTheirNumbers) {
  RunSetup setup;
  setup.config.dataset.images.emplace();
  setup.conversations.emplace();
  EXPECT_EQ(unplanned_causes(setup), "rows with other numbers of pictures");
}

}  // namespace
}  // namespace viaduct
