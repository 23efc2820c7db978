#include "train/data_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/dataset_builder.h"
#include "data/indexed_dataset_writer.h"
#include "support/chat_tokenizer.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kRow = 10;

struct DataUses : testing::Test {
  std::string write(const char* name, int64_t tokens) {
    IndexedDatasetWriter writer(folder / name, TokenType::uint16);
    writer.add_document(std::vector<int32_t>(static_cast<size_t>(tokens), 3));
    writer.finish();
    return (folder / name).string();
  }
  std::vector<DataUse> use(std::vector<std::string> blend, int64_t rows) {
    DatasetConfig config;
    config.blend = std::move(blend);
    config.split = "1,0,0";
    config.sequence_length.resolve(kRow);
    DatasetBuilder builder(config, 100, nullptr);
    return data_use(*builder.build(Split::train, rows), rows);
  }
  test::TemporaryFolder folder;
};

TEST(MarkedText, ShowsWhatIsScored) {
  const Tokenizer tokenizer = test::chat_tokenizer();
  // "aé", of which é is two tokens, "x\n" with an id that is no token, and padding.
  std::vector<int32_t> tokens = tokenizer.encode("a\u00e9x\n");
  ASSERT_EQ(tokens.size(), 5u);
  tokens.insert(tokens.end(), {100000, 0});
  const Sample row{.tokens = tokens,
                   .labels = {},
                   .loss_mask = {1, 1, 0, 0, 1, 0, 0},  // of the next token
                   .position_ids = {},
                   .cu_seqlens = {0, 3, 6, 7},
                   .padding = {0, 0, 0, 0, 0, 0, 1}};
  EXPECT_EQ(marked_text(row, tokenizer), "a[\u00e9]x\\n[<id 100000>]");
  EXPECT_EQ(marked_text(row, tokenizer, true),
            "a\033[32m\u00e9\033[0mx\\n\033[32m<id 100000>\033[0m");
  EXPECT_EQ(marked_text(row, tokenizer, true, 2), "a\033[32m\u00e9\033[0m …");
  Sample plain = row;
  plain.padding.clear();
  EXPECT_EQ(marked_text(plain, tokenizer), "");
}

TEST(MarkedText, HasNothingThatATerminalObeys) {
  const Tokenizer tokenizer = load_tokenizer(test::test_data("tokenizer/bpe_shakespeare"));
  Sample row{.tokens = tokenizer.encode("a\033[2J")};
  row.loss_mask.assign(row.tokens.size(), 0);
  row.padding.assign(row.tokens.size(), 0);
  row.cu_seqlens = {0, static_cast<int32_t>(row.tokens.size())};
  EXPECT_EQ(marked_text(row, tokenizer), "a^[[2J");
}

TEST_F(DataUses, RowsAndEpochsOfOneDataSet) {
  const auto uses = use({write("a", 101)}, 40);
  EXPECT_EQ(data_use_text(uses, kRow),
            "data: 10 rows of 10 tokens an epoch; the run reads 40 (epochs: 3.96)");
  EXPECT_EQ(data_use_warning(uses, kRow), "");
}

TEST_F(DataUses, ManyEpochsAreAWarning) {
  const std::string a = write("a", 101);
  EXPECT_EQ(data_use_warning(use({a}, 161), kRow), "");
  EXPECT_THAT(data_use_warning(use({a}, 202), kRow),
              AllOf(HasSubstr("dataset " + a +
                              ": the run reads its 101 tokens for training 20 "
                              "times"),
                    HasSubstr("fewer steps (train.train_iters)")));
}

TEST_F(DataUses, ATextShorterThanARowIsAWarning) {
  const std::string a = write("a", 10);
  const auto uses = use({a}, 1);
  EXPECT_EQ(data_use_text(uses, kRow),
            "data: 0 rows of 10 tokens an epoch; the run reads 1 (epochs: 1)");
  EXPECT_THAT(data_use_warning(uses, kRow),
              HasSubstr("its 10 tokens for training are fewer than the 11 of one row"));
}

TEST_F(DataUses, OfABlendTheMostReadIsNamed) {
  const std::string a = write("a", 1001), b = write("b", 101);
  const auto uses = use({"0.5", a, "0.5", b}, 400);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_THAT(data_use_text(uses, kRow),
              AllOf(HasSubstr("data: 2 data sets with 110 rows of 10 tokens an epoch"),
                    HasSubstr("of " + b + ")")));
  EXPECT_THAT(data_use_warning(uses, kRow), HasSubstr("dataset " + b));
}

TEST_F(DataUses, OfABlendTheRowsThatTheRunReadsAreCounted) {
  const std::string a = write("a", 301), b = write("b", 101);
  // Weighted data sets are opened with a surplus, the others whole.
  for (const std::vector<std::string>& blend :
       {std::vector<std::string>{a, b}, std::vector<std::string>{"0.75", a, "0.25", b}}) {
    const auto uses = use(blend, 8);
    ASSERT_EQ(uses.size(), 2u);
    EXPECT_EQ(uses[0].rows, 6);
    EXPECT_EQ(uses[1].rows, 2);
    EXPECT_THAT(data_use_text(uses, kRow), HasSubstr("an epoch; the run reads 8 (most epochs: "));
  }
}

TEST_F(DataUses, MockDataHaveNone) {
  DatasetConfig config;
  config.mock = true;
  config.sequence_length.resolve(kRow);
  DatasetBuilder builder(config, 100, nullptr);
  EXPECT_TRUE(data_use(*builder.build(Split::train, 5), 5).empty());
}

}  // namespace
}  // namespace viaduct
