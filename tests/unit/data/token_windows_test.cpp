#include "data/token_windows.h"

#include <gmock/gmock.h>

#include <numeric>

#include "base/error.h"
#include "data/indexed_dataset_writer.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using Ids = std::vector<int32_t>;

Ids count_to(int32_t n) {
  Ids ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), 100);
  return ids;
}

TEST(TokenWindows, ScoreEveryTokenButTheFirstOnce) {
  for (const int32_t tokens : {2, 5, 8, 9, 10, 31}) {
    for (const auto& [length, stride] : {std::pair(8, 8), {8, 3}, {8, 1}, {3, 2}, {1, 1}}) {
      const TokenWindows windows(TokenStream(count_to(tokens)), length, stride);
      EXPECT_EQ(windows.scored(), tokens - 1);
      std::vector<int> scored(static_cast<size_t>(tokens), 0);
      for (int64_t i = 0; i < windows.size(); ++i) {
        const Sample row = windows.get(i);
        ASSERT_EQ(row.tokens.size(), static_cast<size_t>(length));
        EXPECT_THAT(row.cu_seqlens, ElementsAre(0, length));
        for (size_t t = 0; t < row.tokens.size(); ++t) {
          EXPECT_EQ(row.position_ids[t], static_cast<int32_t>(t));
          if (row.loss_mask[t] == 0) continue;
          EXPECT_EQ(row.tokens[t], 100 + i * stride + static_cast<int64_t>(t));
          EXPECT_EQ(row.labels[t], row.tokens[t] + 1);
          ++scored[static_cast<size_t>(row.labels[t] - 100)];
          // As much context as the stride leaves.
          EXPECT_GE(static_cast<int64_t>(t), i > 0 ? length - stride : 0);
        }
      }
      EXPECT_EQ(scored[0], 0);
      for (size_t t = 1; t < scored.size(); ++t)
        EXPECT_EQ(scored[t], 1) << "token " << t << " of " << tokens << ", rows of " << length
                                << " every " << stride;
    }
  }
}

TEST(TokenWindows, RefuseWhatCannotBeScored) {
  EXPECT_THROW(TokenWindows(TokenStream(Ids{}), 4, 4), ConfigError);
  EXPECT_THROW(TokenWindows(TokenStream(Ids{1}), 4, 4), ConfigError);
  EXPECT_THROW(TokenWindows(TokenStream(Ids{1, 2}), 4, 5), ConfigError);
  EXPECT_THROW(TokenWindows(TokenStream(Ids{1, 2}), 4, 0), ConfigError);
  EXPECT_THROW(TokenWindows(TokenStream(Ids{1, 2}), 4, 4).get(1), ShapeError);
}

TEST(TokenStream, OfADataSetIsItsDocumentsOneAfterTheOther) {
  const test::TemporaryFolder folder;
  IndexedDatasetWriter writer(folder / "data", TokenType::uint16);
  for (const Ids& document : {Ids{1, 2, 3}, Ids{4}, Ids{5, 6, 7, 8}}) writer.add_document(document);
  writer.finish();
  const TokenStream stream(std::make_shared<const IndexedDataset>(folder / "data"));
  ASSERT_EQ(stream.size(), 8);
  for (int64_t begin = 0; begin < 8; ++begin) {
    for (int64_t count = 0; begin + count <= 8; ++count) {
      Ids read(static_cast<size_t>(count));
      stream.read(begin, read);
      for (size_t i = 0; i < read.size(); ++i)
        EXPECT_EQ(read[i], begin + static_cast<int64_t>(i) + 1);
    }
  }
  Ids too_many(3);
  EXPECT_THROW(stream.read(6, too_many), ShapeError);
  EXPECT_THROW(stream.read(-1, too_many), ShapeError);
}

}  // namespace
}  // namespace viaduct
