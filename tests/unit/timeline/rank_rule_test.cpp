// A rule of ranks describes the set that it was made from, in a few numbers if the set is a group
// of a mesh.

#include "timeline/rank_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/group_kinds.h"

namespace viaduct {
namespace {

using testing::ElementsAreArray;

std::vector<int> members(const RankRule& rule) {
  std::vector<int> list;
  for (int place = 0; place < rule.size(); ++place) list.push_back(rule.member(place));
  return list;
}

std::string text_of(const std::vector<int>& ranks) {
  return RankRule::of(ranks).text();
}

TEST(RankRule, SaysWhatItIs) {
  EXPECT_EQ(text_of({5}), "5");
  EXPECT_EQ(text_of({0, 1, 2, 3}), "0 + 1·[0, 4)");
  EXPECT_EQ(text_of({3, 5, 7}), "3 + 2·[0, 3)");
  EXPECT_EQ(text_of({1, 3, 9, 11, 17, 19}), "1 + 2·[0, 2) + 8·[0, 3)");
  EXPECT_EQ(text_of({0, 1, 2, 3, 100, 101}), "0 + 1·[0, 4) | 100 + 1·[0, 2)");
  EXPECT_EQ(RankRule::first(16384).text(), "0 + 1·[0, 16384)");
  EXPECT_EQ(RankRule::first(16384).blocks().size(), 1u);
  EXPECT_EQ(RankRule().size(), 0);
}

TEST(RankRule, AnySetComesBack) {
  for (unsigned set = 1; set < 1u << 12; ++set) {
    std::vector<int> ranks;
    for (int rank = 0; rank < 12; ++rank)
      if ((set >> rank & 1) != 0) ranks.push_back(rank);
    const RankRule rule = RankRule::of(ranks);
    ASSERT_THAT(members(rule), ElementsAreArray(ranks)) << rule.text();
    for (int rank = -1; rank < 13; ++rank) {
      const auto found = std::find(ranks.begin(), ranks.end(), rank);
      ASSERT_EQ(rule.place_of(rank), found == ranks.end() ? -1 : found - ranks.begin())
          << rank << " of " << rule.text();
    }
  }
}

// Every kind of group of a mesh is one block, in any order of its axes (dp_cp.inner alone may take
// three: a run of data ranks that ends in the middle of a context group).
TEST(RankRule, GroupsOfMeshesAreOneBlock) {
  for (const char* order : {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "pp-dp-ep-cp-tp"}) {
    const Mesh mesh = Mesh::make({.ranks = 192, .tp = 2, .cp = 4, .pp = 3, .ep = 4}, order,
                                 {.optimizer_instances = 2, .kv_replicas = 2});
    for (int kind = 0; kind < kGroupKinds; ++kind) {
      for (const auto& group : all_groups(mesh, static_cast<GroupKind>(kind))) {
        std::vector<int> ranks;
        for (const GlobalRank rank : group) ranks.push_back(rank.value);
        const RankRule rule = RankRule::of(ranks);
        EXPECT_EQ(rule.blocks().size(), 1u)
            << order << " " << group_kind_name(static_cast<GroupKind>(kind)) << ": " << rule.text();
        EXPECT_THAT(members(rule), ElementsAreArray(ranks));
      }
    }
  }
}

TEST(RankRule, EqualSetsAreEqualRules) {
  EXPECT_EQ(RankRule::of(std::vector<int>{0, 1, 2}), RankRule::first(3));
  EXPECT_FALSE(RankRule::of(std::vector<int>{0, 1, 3}) == RankRule::first(3));
}

TEST(RankRule, RefusesWhatIsNoSet) {
  EXPECT_THROW(RankRule::of(std::vector<int>{1, 1}), CommError);
  EXPECT_THROW(RankRule::of(std::vector<int>{2, 1}), CommError);
  EXPECT_THROW(RankRule::first(3).member(3), CommError);
  EXPECT_THROW(RankRule::first(3).member(-1), CommError);
}

}  // namespace
}  // namespace viaduct
