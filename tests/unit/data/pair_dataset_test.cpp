// Rows of pairs for models with an encoder.

#include "data/pair_dataset.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "data/dataset_builder.h"
#include "data/token_record.h"
#include "engine/sample_batch.h"
#include "support/conversations.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::MaskedTokens;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class Pairs : public testing::Test {
 protected:
  DatasetConfig config(const std::vector<MaskedTokens>& pairs, int64_t length,
                       const PairSettings& settings) const {
    DatasetConfig config;
    config.blend = std::vector{test::write_conversations(folder_ / "pairs", pairs)};
    config.split = "1,0,0";
    config.sequence_length.resolve(length);
    config.pairs = settings;
    return config;
  }
  static std::shared_ptr<const SampleSource> source(const DatasetConfig& config) {
    DatasetBuilder builder(config, 64);
    return builder.build(Split::train, std::nullopt);
  }
  template <class Error>
  static std::string error_of(const DatasetConfig& config) {
    try {
      source(config)->get(0);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  const PairSettings settings_{
      .encoder_length = 5, .start_token = 60, .padding_token = 61, .end_token = 1};
  test::TemporaryFolder folder_;
};

TEST_F(Pairs, WhatIsNotScoredBeforeTheAnswerIsTheInput) {
  const auto rows = source(config({{{10, 11, 12, 20, 21}, {0, 0, 0, 1, 1}}}, 4, settings_));
  EXPECT_EQ(rows->sequence_length(), 4);
  EXPECT_EQ(rows->encoder_length(), 5);
  const Sample row = rows->get(0);
  EXPECT_THAT(row.encoder_tokens, ElementsAre(10, 11, 12, 1, 61));
  EXPECT_EQ(row.encoder_used, 4);
  EXPECT_THAT(row.tokens, ElementsAre(60, 20, 21, 1));
  EXPECT_THAT(row.labels, ElementsAre(20, 21, 1, 61));
  EXPECT_THAT(row.loss_mask, ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(row.padding, ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(row.position_ids, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(row.cu_seqlens, ElementsAre(0, 4));
}

TEST_F(Pairs, AnEndTokenThatIsThereIsNotRepeated) {
  const Sample row = source(config({{{10, 1, 20, 1}, {0, 0, 1, 1}}}, 3, settings_))->get(0);
  EXPECT_THAT(row.encoder_tokens, ElementsAre(10, 1, 61, 61, 61));
  EXPECT_THAT(row.labels, ElementsAre(20, 1, 61));
}

/// What the answer quotes without learning it is in the decoder's row.
TEST_F(Pairs, TheMaskSaysWhatOfTheAnswerIsScored) {
  const Sample row = source(config({{{10, 20, 21, 22}, {0, 1, 0, 1}}}, 4, settings_))->get(0);
  EXPECT_THAT(row.encoder_tokens, ElementsAre(10, 1, 61, 61, 61));
  EXPECT_THAT(row.labels, ElementsAre(20, 21, 22, 1));
  EXPECT_THAT(row.loss_mask, ElementsAre(1, 0, 1, 1));
}

/// Its first token is the answer's, so the encoder's row has the end token alone.
TEST_F(Pairs, AnAnswerToAnEmptyInputIsWhole) {
  const DatasetConfig data = config({{{20, 21}, {1, 1}}}, 4, settings_);
  const Sample row = source(data)->get(0);
  EXPECT_THAT(row.encoder_tokens, ElementsAre(1, 61, 61, 61, 61));
  EXPECT_EQ(row.encoder_used, 1);
  EXPECT_THAT(row.tokens, ElementsAre(60, 20, 21, 1));
  EXPECT_THAT(row.labels, ElementsAre(20, 21, 1, 61));
  EXPECT_THAT(row.loss_mask, ElementsAre(1, 1, 1, 0));
  const PairLengths longest = longest_of_pairs(data.blend->front(), 1);
  EXPECT_EQ(longest.input, 1);
  EXPECT_EQ(longest.answer, 3);
  EXPECT_THAT(source(config({{{20, 21, 22}, {1, 0, 1}}}, 4, settings_))->get(0).loss_mask,
              ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(source(config({{{20}, {1}}}, 4, settings_))->get(0).labels,
              ElementsAre(20, 1, 61, 61));
}

TEST_F(Pairs, WithoutAnInputNeedAnEndToken) {
  PairSettings endless = settings_;
  endless.end_token.reset();
  EXPECT_THAT(error_of<ConfigError>(config({{{20, 21}, {1, 1}}}, 4, endless)),
              HasSubstr("1 pair without an input"));
}

TEST_F(Pairs, TextsThatAreLearnedWholeAreRefused) {
  const DatasetConfig data = config({{{10, 20, 21}, {0, 1, 1}}}, 4, settings_);
  const auto record = [&](const char* learned) {
    write_token_record(data.blend->front(),
                       {.largest_token = 21, .conversations = ConversationRecord{learned}});
  };
  record("completion");
  EXPECT_EQ(error_of<ConfigError>(data), "no error");
  for (const char* learned : {"all", "completion, all"}) {
    record(learned);
    EXPECT_THAT(error_of<ConfigError>(data), AllOf(HasSubstr("does not say where an answer begins"),
                                                   HasSubstr("expected --train-on completion")));
  }
}

TEST_F(Pairs, RowsOfABatchHaveTwoDocumentsInTheEncoder) {
  const auto rows = source(config({{{10, 11, 20}, {0, 0, 1}}}, 3, settings_));
  HostBatch batch;
  append_row(rows->get(0), 3, batch);
  append_row(rows->get(0), 4, batch);
  EXPECT_THAT(batch.document_offsets, ElementsAre(0, 3, 6));
  EXPECT_THAT(batch.targets, ElementsAre(20, 1, -1, 20, 1, -1));
  EXPECT_THAT(batch.token_index, ElementsAre(9, 10, -1, 12, 13, -1));
  EXPECT_THAT(batch.encoder_document, ElementsAre(0, 2));
  EXPECT_THAT(batch.encoder->document_offsets, ElementsAre(0, 3, 5, 8, 10));
  EXPECT_THAT(batch.encoder->token_index, ElementsAre(15, 16, 17, -1, -1, 20, 21, 22, -1, -1));
  EXPECT_EQ(batch.encoder->scored_weight(), 0);
  const HostBatch blank = blank_rows(2, 3, 5);
  EXPECT_EQ(blank.encoder_document, batch.encoder_document);
  EXPECT_THAT(blank.encoder->document_offsets, ElementsAre(0, 5, 5, 10, 10));
}

TEST_F(Pairs, WhatDoesNotFitIsRefusedBeforeTheRun) {
  EXPECT_THAT(error_of<ConfigError>(config({{{10, 11, 12, 13, 14, 20}, {0, 0, 0, 0, 0, 1}},
                                            {{10, 20, 21, 22}, {0, 1, 1, 1}}},
                                           3, settings_)),
              AllOf(HasSubstr("2 pairs are longer than rows"),
                    HasSubstr("the longest input has 6 tokens, for model.encoder_seq_length = 5"),
                    HasSubstr("the longest answer 4, for model.seq_length = 3")));
  EXPECT_THAT(error_of<ConfigError>(config({{{10, 11}, {0, 0}}}, 3, settings_)),
              HasSubstr("1 pair without a learned token"));
}

TEST_F(Pairs, ADataSetWithoutAMaskIsAText) {
  DatasetConfig plain = config({{{10, 20}, {0, 1}}}, 3, settings_);
  for (const char* end : {".mask.bin", ".mask.idx"})
    std::filesystem::remove(folder_ / (std::string("pairs") + end));
  EXPECT_THAT(error_of<ConfigError>(plain), HasSubstr("a text without a mask"));
}

TEST_F(Pairs, MockRowsAreFull) {
  DatasetConfig mock;
  mock.mock = true;
  mock.sequence_length.resolve(4);
  mock.pairs = settings_;
  DatasetBuilder builder(mock, 64);
  const auto rows = builder.build(Split::train, 10);
  const Sample row = rows->get(3);
  EXPECT_EQ(row.encoder_tokens.size(), 5u);
  EXPECT_EQ(row.encoder_used, 5);
  EXPECT_EQ(row.tokens.front(), 60);
  EXPECT_THAT(row.loss_mask, ElementsAre(1, 1, 1, 1));
  EXPECT_NE(row.encoder_tokens, rows->get(4).encoder_tokens);
}

}  // namespace
}  // namespace viaduct
