// Rows of corrupted texts for models with an encoder.

#include "data/span_dataset.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "data/dataset_builder.h"
#include "data/indexed_dataset_writer.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Ids = std::vector<int32_t>;

constexpr int32_t kEnd = 1, kStart = 2, kPadding = 3, kFirstSentinel = 999;

class Spans : public testing::Test {
 protected:
  Spans() {
    IndexedDatasetWriter writer(folder_ / "text", TokenType::uint16);
    for (int32_t document = 0; document < 8; ++document) {
      Ids ids;
      for (int32_t t = 0; t < 60; ++t) ids.push_back(100 + 60 * document + t);
      writer.add_document(ids);
    }
    writer.finish();
    config.blend = std::vector{(folder_ / "text").string()};
    config.split = "1,0,0";
    config.sequence_length.resolve(8);
    config.pairs = PairSettings{.encoder_length = 24,
                                .start_token = kStart,
                                .padding_token = kPadding,
                                .end_token = kEnd,
                                .sentinels = Sentinels{kFirstSentinel, 10}};
  }
  std::shared_ptr<const SampleSource> source(std::optional<int64_t> rows = std::nullopt,
                                             Split split = Split::train) const {
    DatasetBuilder builder(config, 1000);
    return builder.build(split, rows);
  }
  std::string error() const {
    try {
      source();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  }

  DatasetConfig config;
  test::TemporaryFolder folder_;
};

bool is_sentinel(int32_t id) {
  return id <= kFirstSentinel && id > kFirstSentinel - 10;
}

/// The tokens of a row before its padding, without the end token.
Ids said(const Ids& row, size_t used) {
  Ids ids(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(used));
  EXPECT_EQ(ids.back(), kEnd);
  ids.pop_back();
  return ids;
}

/// The text that input and target were made of: each sentinel of the input stands for what follows
/// it in the target.
Ids text_of(const Ids& input, const Ids& target) {
  Ids text;
  for (const int32_t id : input) {
    if (!is_sentinel(id)) {
      text.push_back(id);
      continue;
    }
    auto at = std::find(target.begin(), target.end(), id);
    EXPECT_NE(at, target.end());
    for (++at; at != target.end() && !is_sentinel(*at); ++at) text.push_back(*at);
  }
  return text;
}

/// Rows of 24 tokens: 26 of the text, of which 4 are noise in one span; the target has 6.
TEST_F(Spans, ARowSaysWhatItsInputLeavesOut) {
  const auto rows = source();
  EXPECT_EQ(rows->sequence_length(), 8);
  EXPECT_EQ(rows->encoder_length(), 24);
  for (int64_t i = 0; i < rows->size(); ++i) {
    const Sample row = rows->get(i);
    ASSERT_EQ(row.encoder_used, 24);
    const Ids input = said(row.encoder_tokens, 24), target = said(row.labels, 6);
    EXPECT_EQ(target.front(), kFirstSentinel);
    const Ids text = text_of(input, target);
    ASSERT_EQ(text.size(), 26u);
    // Documents count up, and so does a row within each.
    int jumps = 0;
    for (size_t t = 1; t < text.size(); ++t) jumps += text[t] == text[t - 1] + 1 ? 0 : 1;
    EXPECT_LE(jumps, 1);
    EXPECT_EQ(row.tokens,
              (Ids{kStart, target[0], target[1], target[2], target[3], target[4], kEnd, kPadding}));
    EXPECT_EQ(row.loss_mask, (std::vector<float>{1, 1, 1, 1, 1, 1, 0, 0}));
    EXPECT_EQ(row.padding, (std::vector<uint8_t>{0, 0, 0, 0, 0, 0, 1, 1}));
  }
}

TEST_F(Spans, ARowFollowsFromTheFields) {
  const Sample first = source()->get(3), again = source()->get(3);
  EXPECT_EQ(first.encoder_tokens, again.encoder_tokens);
  EXPECT_EQ(first.labels, again.labels);
  const Ids input = first.encoder_tokens;
  config.sequence_length = 24;
  config.spans.masking_probability = 0.3;
  EXPECT_NE(source()->get(3).encoder_tokens, input);
  const Ids more = source()->get(3).encoder_tokens;
  config.spans.mean_noise_span_length = 2;
  EXPECT_NE(source()->get(3).encoder_tokens, more);
  config.spans = {};
  config.random_seed = 5;
  EXPECT_NE(source()->get(3).encoder_tokens, input);
}

/// A later epoch leaves out others.
TEST_F(Spans, EachEpochHasItsOwnSpans) {
  const auto rows = source(60);
  ASSERT_GE(rows->size(), 60);
  std::set<std::pair<Ids, Ids>> different;
  for (int64_t i = 0; i < 60; ++i) {
    const Sample row = rows->get(i);
    different.insert({row.encoder_tokens, row.labels});
  }
  EXPECT_GT(different.size(), 50u);
}

TEST_F(Spans, ShortRowsLeaveOutTheRest) {
  config.spans.short_sequence_probability = 1;
  const auto rows = source();
  std::set<int64_t> lengths;
  for (int64_t i = 0; i < rows->size(); ++i) {
    const Sample row = rows->get(i);
    lengths.insert(row.encoder_used);
    EXPECT_GE(row.encoder_used, 3);
    EXPECT_EQ(row.encoder_tokens[static_cast<size_t>(row.encoder_used) - 1], kEnd);
    for (auto t = static_cast<size_t>(row.encoder_used); t < row.encoder_tokens.size(); ++t)
      EXPECT_EQ(row.encoder_tokens[t], kPadding);
  }
  EXPECT_GT(lengths.size(), 3u);
}

TEST_F(Spans, WhatDoesNotFitIsRefusedWithWhatDoes) {
  config.sequence_length = 5;
  EXPECT_THAT(error(), AllOf(HasSubstr("model.seq_length: 5"), HasSubstr("expected 6 or more")));
  config.sequence_length = 40;
  config.spans = {.masking_probability = 0.5, .mean_noise_span_length = 1};
  EXPECT_THAT(error(),
              AllOf(HasSubstr("there are 10 sentinels"), HasSubstr("tokenizer.vocab_extra_ids=")));
  config.pairs->sentinels->of_tokenizer = true, config.pairs->sentinels->count = 1;
  EXPECT_THAT(error(), AllOf(HasSubstr("there is 1 sentinel; "),
                             HasSubstr("have ids that go down by one from token "),
                             Not(HasSubstr("vocab_extra_ids"))));
  config.spans = {};
  config.pairs->sentinels->first = 1000;
  EXPECT_THAT(error(), HasSubstr("the first sentinel is token 1000"));
  config.pairs->sentinels.reset();
  EXPECT_THAT(error(), AllOf(HasSubstr("there are no sentinels"),
                             HasSubstr("tokenizer.vocab_extra_ids=100")));
  config.pairs->sentinels = Sentinels{kFirstSentinel, 10};
  config.pairs->encoder_length = 2;
  EXPECT_THAT(error(), HasSubstr("model.encoder_seq_length: 2"));
}

}  // namespace
}  // namespace viaduct
