#include "data/tokenizer/bpe_merges.h"

#include <gtest/gtest.h>

#include <random>

#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

/// The definition, step by step: merge the pair of the lowest rank, the leftmost of equal ones.
std::vector<int32_t> merge_by_definition(std::vector<int32_t> ids, const MergeTable& merges) {
  while (true) {
    const MergeTable::Merge* best = nullptr;
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto* merge = merges.find(ids[i], ids[i + 1]);
      if (merge == nullptr || (best != nullptr && best->rank <= merge->rank)) continue;
      best = merge;
      at = i;
    }
    if (best == nullptr) return ids;
    ids[at] = best->joined;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

TEST(MergePairs, FollowsTheDefinitionForShortAndLongPieces) {
  std::mt19937 random(1);
  const auto below = [&](uint32_t bound) { return static_cast<int32_t>(random() % bound); };
  for (int round = 0; round < 200; ++round) {
    MergeTable merges(40);
    int32_t next = 3;
    for (uint32_t rank = 0; rank < 40; ++rank) {
      // Some merges give an existing token, even one of their own parts.
      const int32_t joined = below(4) == 0 ? below(next) : next++;
      merges.set(below(next), below(next), {rank, joined});
    }
    MergeScratch scratch;
    for (const size_t length : {0, 1, 2, 3, 20, 48, 49, 50, 200}) {
      std::vector<int32_t> ids(length);
      for (int32_t& id : ids) id = below(3);
      const auto expected = merge_by_definition(ids, merges);
      merge_pairs(ids, merges, scratch);
      ASSERT_EQ(ids, expected) << "round " << round << ", length " << length;
    }
  }
}

TEST(MergePairs, TakesLongPieces) {
  MergeTable merges(20);
  for (int32_t i = 0; i < 20; ++i) merges.set(i, i, {static_cast<uint32_t>(i), i + 1});
  std::vector<int32_t> ids(1 << 20, 0);
  MergeScratch scratch;
  merge_pairs(ids, merges, scratch);
  EXPECT_EQ(ids, std::vector<int32_t>{20});
}

TEST(MergeTable, KeepsTheLastOfAPair) {
  MergeTable merges(2);
  EXPECT_EQ(merges.find(0, 1), nullptr);
  merges.set(0, 1, {5, 7});
  merges.set(0, 1, {6, 8});
  ASSERT_NE(merges.find(0, 1), nullptr);
  EXPECT_EQ(merges.find(0, 1)->rank, 6u);
  EXPECT_EQ(merges.find(1, 0), nullptr);
  EXPECT_EQ(MergeTable().find(0, 0), nullptr);
}

TEST(Utf8, KnowsWhatIsUnfinished) {
  EXPECT_EQ(unfinished_utf8_bytes(""), 0u);
  EXPECT_EQ(unfinished_utf8_bytes("a"), 0u);
  EXPECT_EQ(unfinished_utf8_bytes("\xc3\xa9"), 0u);
  EXPECT_EQ(unfinished_utf8_bytes("a\xc3"), 1u);
  EXPECT_EQ(unfinished_utf8_bytes("\xf0\x9f"), 2u);
  EXPECT_EQ(unfinished_utf8_bytes("\xf0\x9f\x98"), 3u);
  EXPECT_EQ(unfinished_utf8_bytes("\xed\xa0"), 0u);  // a surrogate: no byte token represents it
  EXPECT_EQ(unfinished_utf8_bytes("\x80\x80\x80\x80"), 0u);
}

}  // namespace
}  // namespace viaduct
