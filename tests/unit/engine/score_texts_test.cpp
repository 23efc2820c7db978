// How texts that are scored come into micro-batches.

#include "engine/score_texts.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "engine/text_batches.h"

namespace viaduct {
namespace {

using Ids = std::vector<int32_t>;
using testing::ElementsAre;

TextToScore text(Ids ids, int32_t token, size_t request) {
  const auto last = static_cast<int64_t>(ids.size()) - 1;
  return {std::move(ids), {{last, token, request}}};
}

TEST(JoinedTexts, OneThatBeginsAnotherIsScoredWithIt) {
  const std::vector<TextToScore> joined =
      join_texts({text({1, 2}, 5, 0), text({1, 2}, 6, 1), text({1, 2, 3}, 7, 2), text({1, 3}, 8, 3),
                  text({2}, 9, 4), text({1}, 4, 5)});
  ASSERT_EQ(joined.size(), 3u);
  EXPECT_THAT(joined[0].ids, ElementsAre(1, 2, 3));  // the longest first
  std::vector<size_t> requests;
  for (const TokenTarget& target : joined[0].targets) requests.push_back(target.request);
  EXPECT_THAT(requests, testing::UnorderedElementsAre(0, 1, 2, 5));
  EXPECT_THAT(joined[1].ids, ElementsAre(1, 3));
  EXPECT_THAT(joined[2].ids, ElementsAre(2));
  for (const TextToScore& one : joined) {
    for (const TokenTarget& target : one.targets)
      EXPECT_LT(target.position, static_cast<int64_t>(one.ids.size()));
  }
}

TEST(TextBatch, HasTextsAsDocumentsAndIsFilled) {
  const std::vector<TextToScore> texts{text({1, 2, 3, 4, 5}, 9, 0), text({6, 7, 8}, 9, 1),
                                       text({1}, 9, 2)};
  const TextBatches batches(texts, {.tokens = 8, .longest = 5});
  ASSERT_EQ(batches.count(), 2);
  const HostBatch first = batches.batch(0), second = batches.batch(1), beyond = batches.batch(2);
  EXPECT_THAT(first.ids, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(first.positions, ElementsAre(0, 1, 2, 3, 4, 0, 1, 2));
  EXPECT_THAT(first.document_offsets, ElementsAre(0, 5, 8));
  ASSERT_EQ(batches.targets(0).size(), 2u);
  EXPECT_EQ(batches.targets(0)[1].position, 7);
  EXPECT_EQ(batches.targets(0)[1].request, 1u);
  EXPECT_EQ(second.tokens(), 8);
  EXPECT_THAT(second.document_offsets, ElementsAre(0, 1, 6, 8));
  EXPECT_EQ(batches.targets(1)[0].position, 0);
  EXPECT_EQ(beyond.tokens(), 8);
  EXPECT_TRUE(batches.targets(2).empty());
}

TEST(TextBatch, LeavesRoomForThePaddingOfContextRanks) {
  const std::vector<TextToScore> texts{text({1, 2, 3, 4, 5}, 9, 0), text({6, 7, 8}, 9, 1)};
  // Documents become multiples of 4: 8 and 4 tokens.
  const TextBatches batches(texts, {.tokens = 8, .longest = 8, .cp = 2});
  ASSERT_EQ(batches.count(), 2);
  EXPECT_EQ(batches.batch(0).tokens(), 5);
  EXPECT_EQ(batches.batch(1).tokens(), 7);  // 3, and 4 that fill it
}

TEST(TextBatch, RefusesTextsThatDoNotFit) {
  const std::vector<TextToScore> texts{text({1, 2, 3}, 9, 0)};
  EXPECT_THROW(TextBatches(texts, {.tokens = 2, .longest = 4}), ShapeError);
  EXPECT_THROW(TextBatches(texts, {.tokens = 4, .longest = 2}), ShapeError);
  EXPECT_THROW(TextBatches({{}}, {.tokens = 4, .longest = 2}), ShapeError);
}

}  // namespace
}  // namespace viaduct
