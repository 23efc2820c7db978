#include "sharding/shard_run.h"

#include <gtest/gtest.h>

namespace viaduct {
namespace {

using Rectangles = std::vector<Rectangle>;

TEST(Rectangles, RestOfARowWholeRowsBeginOfARow) {
  EXPECT_EQ(rectangles({7, 33}, 10), (Rectangles{{0, 7, 1, 3}, {1, 0, 2, 10}, {3, 0, 1, 3}}));
  EXPECT_EQ(rectangles({10, 40}, 10), (Rectangles{{1, 0, 3, 10}}));
  EXPECT_EQ(rectangles({12, 15}, 10), (Rectangles{{1, 2, 1, 3}}));
  EXPECT_EQ(rectangles({18, 22}, 10), (Rectangles{{1, 8, 1, 2}, {2, 0, 1, 2}}));
  EXPECT_EQ(rectangles({2, 6}, 1), (Rectangles{{2, 0, 4, 1}}));
  EXPECT_EQ(rectangles({5, 5}, 10), Rectangles{});
}

TEST(PartRange, IsWholeRowsOfTheStorage) {
  Parameter parameter;
  parameter.shape = {6, 4};
  Part part = whole_part("k", {2, 4});
  part.storage_row = 3;
  EXPECT_EQ(part_range(parameter, part), (Range{12, 20}));
  parameter.shape = {6};
  part = whole_part("bias", {2});
  part.storage_row = 4;
  EXPECT_EQ(part_range(parameter, part), (Range{4, 6}));
}

}  // namespace
}  // namespace viaduct
