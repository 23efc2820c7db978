// Open allocations: each is found once, whatever was released, set aside or came out of order
// before.

#include "timeline/open_allocations.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace viaduct {
namespace {

TEST(OpenAllocations, EachIsTakenOnce) {
  OpenAllocations open;
  open.add(7, 0);
  open.add(8, 1);
  open.add(11, 2);  // others were not in the record
  EXPECT_EQ(open.take(8), 1u);
  EXPECT_EQ(open.take(8), std::nullopt);
  EXPECT_EQ(open.take(9), std::nullopt);
  EXPECT_EQ(open.take(6), std::nullopt);
  EXPECT_EQ(open.take(12), std::nullopt);
  EXPECT_EQ(open.take(7), 0u);
  EXPECT_EQ(open.take(7), std::nullopt);
  EXPECT_EQ(open.take(11), 2u);
}

TEST(OpenAllocations, NumbersThatComeLateAreFound) {
  OpenAllocations open;
  open.add(10, 0);
  open.add(3, 1);
  open.add(11, 2);
  EXPECT_EQ(open.take(3), 1u);
  EXPECT_EQ(open.take(3), std::nullopt);
  EXPECT_EQ(open.take(10), 0u);
  EXPECT_EQ(open.take(11), 2u);
}

TEST(OpenAllocations, SettingAsideGivesNewIndicesInTheOrderOfNumbers) {
  OpenAllocations open;
  for (int64_t id = 1; id <= 4; ++id) open.add(id, static_cast<std::size_t>(id) + 100);
  open.take(2);
  std::vector<std::size_t> seen;
  const auto renumber = [&](std::size_t index) {
    seen.push_back(index);
    return seen.size() - 1;
  };
  open.set_aside(renumber);
  EXPECT_EQ(seen, (std::vector<std::size_t>{101, 103, 104}));
  open.add(5, 3);
  seen.clear();
  open.set_aside(renumber);
  EXPECT_EQ(seen, (std::vector<std::size_t>{0, 1, 2, 3})) << "those set aside before are kept";
  EXPECT_EQ(open.take(3), 1u);
  EXPECT_EQ(open.take(5), 3u);
  EXPECT_EQ(open.take(2), std::nullopt);
}

TEST(OpenAllocations, IsAMapFromNumbersToIndices) {
  std::mt19937 random(5);
  OpenAllocations open;
  std::map<int64_t, std::size_t> expected;
  int64_t next = 40;
  for (std::size_t step = 0; step < 20000; ++step) {
    const auto choice = random() % 100;
    if (choice < 50) {
      next += choice == 0 ? 3 : 1;
      open.add(next, step);
      expected[next] = step;
    } else if (choice < 99) {
      const int64_t id = next - static_cast<int64_t>(random() % 60);
      const auto found = expected.find(id);
      EXPECT_EQ(open.take(id),
                found == expected.end() ? std::nullopt : std::optional<std::size_t>(found->second));
      if (found != expected.end()) expected.erase(found);
    } else if (step % 7 == 0) {
      open.set_aside([](std::size_t index) { return index + 1; });
      for (auto& [id, index] : expected) ++index;
    }
  }
  for (const auto& [id, index] : expected) EXPECT_EQ(open.take(id), index);
}

}  // namespace
}  // namespace viaduct
