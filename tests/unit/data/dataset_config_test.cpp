#include "data/dataset_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/thread_pool.h"
#include "config/load.h"
#include "data/dataset_builder.h"
#include "data/indexed_dataset_writer.h"
#include "data/vocabulary_check.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

std::vector<std::string> problems_of(DatasetConfig& config, std::vector<std::string> overrides) {
  std::vector<FieldGroup> groups{dataset_fields(config)};
  const Schema schema(std::move(groups));
  Problems problems;
  read_config(schema, {{}, std::move(overrides)}, problems);
  return problems.all();
}

TEST(DatasetConfig, ReadsTheFormsOfTheCommandLine) {
  DatasetConfig config;
  EXPECT_TRUE(problems_of(config, {"dataset.blend=[0.3,a/x,0.7,b]", "dataset.sequence_length=64",
                                   "dataset.random_seed=7", "dataset.reset_attention_mask=true",
                                   "dataset.eod_id=999", "dataset.split='90,10,0'"})
                  .empty());
  EXPECT_EQ(config.blend, (std::vector<std::string>{"0.3", "a/x", "0.7", "b"}));
  EXPECT_EQ(config.sequence_length.value(), 64);
  EXPECT_EQ(config.split, "90,10,0");
  EXPECT_TRUE(dataset_config_problems(config).empty());

  DatasetConfig per_split;
  EXPECT_TRUE(problems_of(per_split, {"dataset.blend_per_split=[[a,b],[c],null]",
                                      "GPTDatasetConfig.seq_length=8"})
                  .empty());
  ASSERT_EQ(per_split.blend_per_split->size(), 3u);
  EXPECT_EQ(*(*per_split.blend_per_split)[0], (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE((*per_split.blend_per_split)[2]);
  EXPECT_EQ(per_split.sequence_length.value(), 8);
}

TEST(DatasetConfig, RefusesValuesOutOfRange) {
  DatasetConfig config;
  EXPECT_EQ(problems_of(config, {"dataset.random_seed=-1"}).size(), 1u);
  EXPECT_EQ(problems_of(config, {"dataset.sequence_length=0"}).size(), 1u);
  EXPECT_EQ(problems_of(config, {"dataset.blend=7"}).size(), 1u);
}

TEST(Blend, ReadsPrefixesWithAndWithoutWeights) {
  const Blend weighted = parse_blend({"30", "a", "70", "b"});
  EXPECT_EQ(weighted.prefixes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(*weighted.weights, (std::vector<double>{30, 70}));
  EXPECT_FALSE(parse_blend({"a", "b"}).weights);
  EXPECT_FALSE(parse_blend({"a"}).weights);
  // An odd number of entries means prefixes without weights.
  EXPECT_EQ(parse_blend({"1", "2", "3"}).prefixes.size(), 3u);
  EXPECT_THROW(parse_blend({"1", "a", "b", "c"}), ConfigError);
  EXPECT_THROW(parse_blend({"0", "a", "1", "b"}), ConfigError);
  EXPECT_THROW(parse_blend({}), ConfigError);
}

// Messages name the field that is to be changed.
TEST(Blend, IsNamedWhereItIsWrong) {
  DatasetConfig config;
  config.sequence_length = 4;
  config.blend = std::vector<std::string>{};
  EXPECT_THAT(dataset_config_problems(config),
              testing::ElementsAre(testing::StartsWith("dataset.blend: expected prefixes")));
  config.blend = {"1", "a", "b", "c"};
  EXPECT_THAT(dataset_config_problems(config),
              testing::ElementsAre(testing::StartsWith("dataset.blend: 1 of 2 data sets")));
  config.blend_per_split = {*config.blend, std::nullopt, std::nullopt};
  config.blend.reset();
  EXPECT_THAT(
      dataset_config_problems(config),
      testing::ElementsAre(testing::StartsWith("dataset.blend_per_split: 1 of 2 data sets")));
}

TEST(Vocabulary, DataLargerThanTheModelIsRefusedWithBothNumbers) {
  const test::TemporaryFolder folder;
  IndexedDatasetWriter writer(folder / "d", TokenType::int32);
  for (int i = 0; i < 3000; ++i)
    writer.add_document(std::vector<int32_t>{1, 2, i == 2711 ? 70000 : 3});
  writer.finish();
  ThreadPool pool(2);
  const IndexedDataset dataset(folder / "d");
  EXPECT_EQ(max_token_id(dataset, pool), 70000);
  // A bound limits the number of tokens checked, but samples all parts of the file.
  EXPECT_LE(max_token_id(dataset, pool, 1000), 70000);
  EXPECT_GE(max_token_id(dataset, pool, 1000), 1);

  DatasetConfig config;
  config.blend.emplace({(folder / "d").string()});
  config.sequence_length = 8;
  DatasetBuilder builder(config);
  EXPECT_NO_THROW(check_vocabulary(builder, 70001, pool));
  try {
    check_vocabulary(builder, 70000, pool);
    FAIL();
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("token id 70000"), std::string::npos) << message;
    EXPECT_NE(message.find("70000 entries"), std::string::npos) << message;
  }
}

// A sparse file, twice as long as the check's bound: a token outside the sample is detected when
// its row is read.
TEST(Vocabulary, APartOfALargeFileIsLookedAt) {
  const test::TemporaryFolder folder;
  constexpr int kDocuments = 1024;  // each is a part of its own
  constexpr int64_t kLength = 2 * kVocabularySample / kDocuments;
  {
    IndexedDatasetWriter writer(folder / "d", TokenType::uint16);
    for (int i = 0; i < kDocuments; ++i)
      writer.add_document(std::vector<int32_t>(static_cast<size_t>(kLength)));
    writer.finish();
  }
  const auto put = [&](int64_t token, uint16_t value) {
    std::fstream file(folder / "d.bin", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(2 * token);
    file.write(reinterpret_cast<const char*>(&value), 2);
  };
  DatasetConfig config;
  config.blend.emplace({(folder / "d").string()});
  config.split = "1,0,0";
  config.sequence_length = kLength / 2;
  ThreadPool pool(2);
  put(kLength - 1, 500);
  DatasetBuilder builder(config, 100);
  EXPECT_NO_THROW(check_vocabulary(builder, 100, pool));
  const auto source = builder.build(Split::train, std::nullopt);
  int refused = 0;
  Sample row;
  for (int64_t i = 0; i < source->size(); ++i) {
    try {
      source->get(i, row);
    } catch (const IoError&) {
      ++refused;
    }
  }
  EXPECT_GE(refused, 1);
  put(7, 500);
  DatasetBuilder again(config, 100);
  EXPECT_THROW(check_vocabulary(again, 100, pool), ConfigError);
}

TEST(Vocabulary, NegativeTokensAreRefused) {
  const test::TemporaryFolder folder;
  IndexedDatasetWriter writer(folder / "d", TokenType::int32);
  writer.add_document(std::vector<int32_t>{1, -2});
  writer.finish();
  ThreadPool pool(1);
  EXPECT_THROW(max_token_id(IndexedDataset(folder / "d"), pool), IoError);
}

}  // namespace
}  // namespace viaduct
