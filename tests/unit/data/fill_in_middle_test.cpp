#include "data/fill_in_middle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "data/dataset_builder.h"
#include "data/gpt_dataset.h"
#include "data/indexed_dataset_writer.h"
#include "data/tokenizer/tokenizer.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int32_t kEod = 0, kPrefix = 1024, kMiddle = 1025, kSuffix = 1026, kPad = 1027,
                  kSplit = 1028;

/// A tokenizer of Shakespeare's plays with the tokens of fill in the middle and one to split at.
Tokenizer tokenizer() {
  auto parts =
      nlohmann::json::parse(read_file(test::test_data("tokenizer/bpe_shakespeare/tokenizer.json")));
  int32_t id = kPrefix;
  for (const char* token :
       {"<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>", "<file>"}) {
    parts["added_tokens"].push_back({{"id", id++},
                                     {"content", token},
                                     {"single_word", false},
                                     {"lstrip", false},
                                     {"rstrip", false},
                                     {"normalized", false},
                                     {"special", true}});
  }
  return parse_tokenizer(parts.dump());
}

class FillInMiddleTest : public testing::Test {
 protected:
  FillInMiddleTest() { config.fim_rate = 1, config.fim_spm_rate = 0; }

  using Ids = std::vector<int32_t>;
  /// The texts with an end-of-document token between them, and a last document that takes the cut
  /// remainder.
  Ids row_of(const std::vector<std::string>& texts) const {
    Ids row;
    for (const std::string& text : texts) {
      const Ids ids = words.encode(text);
      row.insert(row.end(), ids.begin(), ids.end());
      row.push_back(kEod);
    }
    row.insert(row.end(), 200, words.encode("a")[0]);
    return row;
  }
  Ids applied(int64_t number, Ids row) const {
    FillInMiddle(config, words, "train").apply(number, row);
    return row;
  }
  /// The segments before end-of-document tokens.
  static std::vector<Ids> segments(const Ids& row) {
    std::vector<Ids> all(1);
    for (const int32_t id : row) {
      if (id == kEod) {
        all.emplace_back();
      } else {
        all.back().push_back(id);
      }
    }
    all.pop_back();
    return all;
  }
  std::string text(const Ids& ids, size_t begin, size_t end) const {
    return words.decode(std::span(ids).subspan(begin, end - begin));
  }
  static size_t place(const Ids& ids, int32_t id) {
    EXPECT_EQ(std::count(ids.begin(), ids.end(), id), 1);
    return static_cast<size_t>(std::find(ids.begin(), ids.end(), id) - ids.begin());
  }
  /// The text of an example of each form.
  std::string psm(const Ids& ids) const {
    const size_t suffix = place(ids, kSuffix), middle = place(ids, kMiddle);
    EXPECT_EQ(place(ids, kPrefix), 0u);
    return text(ids, 1, suffix) + text(ids, middle + 1, ids.size()) + text(ids, suffix + 1, middle);
  }
  std::string spm(const Ids& ids) const {
    const size_t middle = place(ids, kMiddle);
    EXPECT_EQ(ids[0], kPrefix);
    EXPECT_EQ(ids[1], kSuffix);
    return text(ids, middle + 1, ids.size()) + text(ids, 2, middle);
  }

  const std::vector<std::string> texts{"Shall I compare thee to a summer's day?",
                                       "Grün ist die Heide, 日本語, ещё.", "x"};
  DatasetConfig config;
  const Tokenizer words = tokenizer();
};

TEST_F(FillInMiddleTest, PartsComeInTheOrderThatTheirTokensSay) {
  const Ids row = row_of(texts);
  std::set<size_t> borders;
  for (int64_t number = 0; number < 50; ++number) {
    const auto made = segments(applied(number, row));
    ASSERT_EQ(made.size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(psm(made[i]), texts[i]) << number;
    borders.insert(place(made[0], kSuffix));
  }
  EXPECT_GT(borders.size(), 5u);  // cut at many different places
  config.fim_spm_rate = 1;
  for (int64_t number = 0; number < 50; ++number) {
    const auto made = segments(applied(number, row));
    for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(spm(made[i]), texts[i]) << number;
  }
}

TEST_F(FillInMiddleTest, RatesAreShares) {
  const Ids row = row_of({texts[0]});
  const auto share = [&](auto&& holds) {
    int count = 0;
    for (int64_t number = 0; number < 2000; ++number) {
      const Ids made = segments(applied(number, row))[0];
      count += holds(made);
    }
    return count / 2000.0;
  };
  const auto changed = [](const Ids& ids) { return ids[0] == kPrefix; };
  const auto suffix_first = [](const Ids& ids) { return ids[1] == kSuffix; };
  config.fim_rate = 0.3;
  EXPECT_NEAR(share(changed), 0.3, 0.04);  // four standard deviations
  config.fim_rate = 1;
  config.fim_spm_rate = 0.8;
  EXPECT_NEAR(share(suffix_first), 0.8 + 0.2 / 40, 0.04);  // and with empty prefixes
  config.fim_rate = 0;
  EXPECT_EQ(applied(5, row), row);
}

TEST_F(FillInMiddleTest, ARowIsTheSameWhoeverReadsIt) {
  const Ids row = row_of(texts);
  EXPECT_EQ(applied(7, row), applied(7, row));
  EXPECT_NE(applied(7, row), applied(8, row));
  Ids other = row;
  FillInMiddle(config, words, "valid").apply(7, other);
  EXPECT_NE(other, applied(7, row));
  config.random_seed = 99;
  EXPECT_NE(applied(7, row), other);
}

TEST_F(FillInMiddleTest, RowsKeepTheirLength) {
  // Each segment has three more tokens, so the end is cut off.
  const Ids row = row_of(texts);
  EXPECT_EQ(applied(3, row).size(), row.size());
  // Text that has fewer tokens when it is tokenized as a whole, and empty segments, which disappear
  // with their ends: padded.
  Ids loose;
  for (const char c : texts[0]) loose.push_back(words.encode(std::string(1, c)).at(0));
  loose.insert(loose.end(), 3, kEod);
  const Ids made = applied(3, loose);
  ASSERT_EQ(made.size(), loose.size());
  EXPECT_EQ(made.back(), kPad);
  // Nothing follows the last end: an empty example.
  const auto pads = std::count(made.begin(), made.end(), kPad);
  EXPECT_EQ(Ids(made.end() - pads - 3, made.end() - pads), (Ids{kPrefix, kSuffix, kMiddle}));
}

TEST_F(FillInMiddleTest, FragmentsAreTurnedAroundOneByOne) {
  config.fim_split_sample = "<file>";
  config.fim_fragment_rate = 1;
  const Ids row = row_of({texts[0] + "<file>" + texts[1]});
  const Ids made = segments(applied(1, row))[0];
  const size_t border = place(made, kSplit);
  EXPECT_EQ(psm({made.begin(), made.begin() + static_cast<int64_t>(border)}), texts[0]);
  EXPECT_EQ(psm({made.begin() + static_cast<int64_t>(border) + 1, made.end()}), texts[1]);
  config.fim_fragment_rate = 0;
  EXPECT_EQ(segments(applied(1, row))[0], segments(row)[0]);
}

TEST_F(FillInMiddleTest, WhatBeginsWithAPrefixStays) {
  config.fim_no_prefix = "Shall";
  const Ids row = row_of(texts);
  const auto made = segments(applied(1, row)), before = segments(row);
  EXPECT_EQ(made[0], before[0]);
  EXPECT_NE(made[1], before[1]);
}

TEST_F(FillInMiddleTest, TokensThatAreMissingAreNamedTogether) {
  config.fim_middle_token = "<mid>";
  config.fim_split_sample = "<repo>";
  try {
    FillInMiddle fill(config, words, "train");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("dataset.fim_middle_token: the tokenizer has no token <mid>"),
                      HasSubstr("dataset.fim_split_sample: the tokenizer has no token <repo>")));
  }
}

TEST_F(FillInMiddleTest, DataSetsGiveSuchRows) {
  const test::TemporaryFolder folder;
  IndexedDatasetWriter writer(folder / "d", TokenType::uint16);
  for (int i = 0; i < 20; ++i) {
    Ids ids = words.encode(texts[static_cast<size_t>(i) % 2]);
    ids.push_back(kEod);
    ids.push_back(kEod);  // an empty segment, for which the row is padded
    writer.add_document(ids);
  }
  writer.finish();
  config.blend.emplace({(folder / "d").string()});
  config.split = "1,0,0";
  config.sequence_length = 40;
  EXPECT_THROW(DatasetBuilder{config}, ConfigError);  // without a tokenizer
  DatasetBuilder builder(config, 1029, &words);
  const auto source = builder.build(Split::train, std::nullopt);
  config.fim_rate = 0;
  DatasetBuilder plain(config, 1029);
  const auto unchanged = plain.build(Split::train, std::nullopt);
  ASSERT_EQ(source->size(), unchanged->size());
  const auto& order = dynamic_cast<const GptDataset&>(*unchanged).index();
  config.fim_rate = 1;
  for (int64_t i = source->size(); i-- > 0;) {
    const Sample row = source->get(i), before = unchanged->get(i);
    Ids whole = before.tokens;
    whole.push_back(before.labels.back());
    const Ids expected = applied(order.shuffled(i), whole);
    EXPECT_EQ(row.tokens, Ids(expected.begin(), expected.end() - 1));
    EXPECT_EQ(row.labels, Ids(expected.begin() + 1, expected.end()));
  }
  // If few segments are rearranged, rows are filled with padding, which is not scored.
  config.fim_rate = 1e-9;
  DatasetBuilder rare(config, 1029, &words);
  const Sample padded = rare.build(Split::train, std::nullopt)->get(0);
  EXPECT_EQ(padded.labels.back(), kPad);
  for (size_t t = 0; t < padded.labels.size(); ++t)
    EXPECT_EQ(padded.loss_mask[t], padded.labels[t] == kPad ? 0 : 1);
}

}  // namespace
}  // namespace viaduct
